"""A click group whose commands are imported when they are called.

So `tideline --help`, and commands that move no rows, start without Spark or Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.exceptions import NoSuchCommand

from tideline.cli.command import WholeWordContext


class LazyGroup(click.Group):
    """Commands by name: `module:attribute` and a one-line help each."""

    context_class = WholeWordContext

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.lazy:
            return None
        module_name, attribute = self.lazy[cmd_name][0].split(":")
        command = getattr(import_module(module_name), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            # Click looks for near names among the commands that are loaded.
            raise NoSuchCommand(
                error.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self.short_helps(ctx))

    def short_helps(self, ctx: click.Context) -> list[tuple[str, str]]:  # noqa: ARG002
        """Name and one-line help of every command."""
        return [(name, text) for name, (_, text) in self.lazy.items()]
