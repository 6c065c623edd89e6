"""The page of every command, made from the commands themselves.

    python -m tools.command_page docs/cli.md

`make reference` does it, and a test fails while they differ.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from tideline.cli.command import SharedOption
from tideline.cli.main import tideline_command

_INTRODUCTION = """# Every command

`make reference` writes this page from the commands in `engine/tideline/cli/` and
`operator/tideline_operator/local/run.py`. [The command line](command-line.md) explains how they
behave: questions, dry runs, output, exit codes, stores.
"""
_VERBATIM = "\b"


def command_page() -> str:
    """The whole page."""
    commands = list(_commands("tideline", tideline_command))
    parts = [_INTRODUCTION, "\n", *_contents(commands)]
    shared: dict[str, click.Option] = {}
    for path, command in commands:
        parts += ["\n", *_section(path, command)]
        options = (param for param in command.params if isinstance(param, SharedOption))
        shared |= {_spelled(option): option for option in options}
    parts += ["\n## Shared options\n\n", *_table(shared.values())]
    return "".join(parts)


def _commands(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Every command with all words of its name, groups left out."""
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(f"{path} {name}", command)
        else:
            yield f"{path} {name}", command


def _contents(commands: Iterable[tuple[str, click.Command]]) -> Iterator[str]:
    yield "| command | what it does |\n|---|---|\n"
    for path, command in commands:
        first = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
        yield f"| [`{path}`](#{path.replace(' ', '-')}) | {_cell(first)} |\n"


def _section(path: str, command: click.Command) -> Iterator[str]:
    words = [param.make_metavar(click.Context(command)) for param in command.params
             if isinstance(param, click.Argument)]  # fmt: skip
    yield f"## {path}\n\n```\n{' '.join([path, *words])}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        verbatim = paragraph.removeprefix(f"{_VERBATIM}\n")
        if verbatim != paragraph:
            yield f"\n```\n{verbatim}\n```\n"
        else:
            yield f"\n{_prose(paragraph)}\n"
    options = [param for param in command.params if isinstance(param, click.Option)]
    own = [option for option in options if not isinstance(option, SharedOption)]
    if own:
        yield "\n"
        yield from _table(own)
    shared = [_spelled(option) for option in options if isinstance(option, SharedOption)]
    if shared:
        named = ", ".join(f"`{name}`" for name in shared)
        yield f"\nShared: {named}.\n"


def _table(options: Iterable[click.Option]) -> Iterator[str]:
    yield "| option | meaning |\n|---|---|\n"
    for option in options:
        value = "" if option.is_flag else f" {option.make_metavar(click.Context(tideline_command))}"
        names = ", ".join(option.opts)
        others = f" / {', '.join(option.secondary_opts)}" if option.secondary_opts else ""
        meaning = _cell(option.help or "")
        notes = list(_notes(option))
        said = f"{meaning} ({'; '.join(notes)})" if notes else meaning
        yield f"| {_code(f'{names}{others}{value}')} | {said.strip()} |\n"


def _notes(option: click.Option) -> Iterator[str]:
    if option.required:
        yield "required"
    if option.show_default and option.default is not None:
        yield f"default `{option.default}`"
    if option.envvar:
        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar
        yield f"else {', '.join(f'`{name}`' for name in names)} of the environment"


def _spelled(option: click.Option) -> str:
    """The longest of an option's names."""
    return max(option.opts, key=len)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|").replace("\n", " ")


def _prose(text: str) -> str:
    """Text for people as Markdown: stars stay stars, options are code."""
    text = text.replace("*", "\\*")
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)(?![\w`=-])", r"`\1`", text)


def main(path: str) -> None:
    """Write the page."""
    Path(path).write_text(command_page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
