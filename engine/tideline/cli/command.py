"""How commands are declared, and how their help reads.

A command's own options come first, those that many commands share after them. Lines are broken at
spaces only, so that options, settings and commands can be copied from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from tideline.cli.progress import progress

COMPLETION_VARIABLE = "_TIDELINE_COMPLETE"
"""Set in the environment by the script of `tideline completion`, it makes the command line answer
the shell."""
_HYPHEN, _UNBREAKABLE = "-", "\N{NON-BREAKING HYPHEN}"
_Function = TypeVar("_Function", bound=Callable[..., Any])


class WholeWordFormatter(click.HelpFormatter):
    """Keeps `--dry-run` and `merge-on-read` on one line each."""

    def write(self, string: str) -> None:
        super().write(string.replace(_UNBREAKABLE, _HYPHEN))

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(_whole(prog), _whole(args), prefix)

    def write_text(self, text: str) -> None:
        super().write_text(_whole(text))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        whole = [(_whole(term), _whole(meaning)) for term, meaning in rows]
        super().write_dl(whole, col_max, col_spacing)


class WholeWordContext(click.Context):
    """The context of every command and group."""

    formatter_class = WholeWordFormatter


class SharedOption(click.Option):
    """An option that many commands have: it comes after a command's own."""


class TidelineCommand(click.Command):
    """A command whose help has its own options first, and that says when it takes long."""

    context_class = WholeWordContext

    def own_options(self, context: click.Context) -> list[click.Parameter]:
        """The options that only this command, or few others, have."""
        return [option for option in _options(self, context) if not _is_shared(option)]

    def shared_options(self, context: click.Context) -> list[click.Parameter]:
        """The options of most commands, `--help` among them."""
        return [option for option in _options(self, context) if _is_shared(option)]

    def invoke(self, ctx: click.Context) -> Any:
        # What takes long says so, also where a command has nothing better to say.
        with progress(f"{self.name} is running"):
            return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, options in (
            ("Options", self.own_options(ctx)),
            ("Shared options", self.shared_options(ctx)),
        ):
            records = [option.get_help_record(ctx) for option in options]
            rows = [record for record in records if record is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def command(name: str, **settings: Any) -> Callable[[_Function], TidelineCommand]:
    """Declare a function as a command; `settings` are those of `click.command`."""
    return click.command(name, cls=TidelineCommand, **settings)


def _options(declared: click.Command, context: click.Context) -> list[click.Parameter]:
    return [param for param in declared.get_params(context) if isinstance(param, click.Option)]


def _is_shared(option: click.Parameter) -> bool:
    return isinstance(option, SharedOption) or "--help" in option.opts


def _whole(text: str) -> str:
    return text.replace(_HYPHEN, _UNBREAKABLE)
