"""Looking before leaping: `--dry-run` on what changes something, a question before what deletes.

The question comes only where a person can answer, with a terminal as standard input, and `--yes`
skips it. A script is not asked: it named the command, and continues as if it had said yes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tideline.cli.progress import end_progress

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Declined(click.Abort):
    """A person answered no: nothing was changed."""


def dry_run_option(
    help: str = "Show what would be done; change nothing.",
) -> Callable[[_Function], _Function]:
    """Add `--dry-run`, the argument `dry_run`."""
    return click.option("--dry-run", is_flag=True, help=help)


def yes_option(command: _Function) -> _Function:
    """Add `--yes`, the argument `yes`: see `ask`."""
    return click.option(
        "-y", "--yes", is_flag=True, help="Delete without asking; only a terminal is asked."
    )(command)


def is_asked(*, yes: bool) -> bool:
    """Whether `ask` would ask: there is no need to find out what would be deleted otherwise."""
    return not yes and sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, *, yes: bool) -> None:
    """Ask on a terminal, with "no" as the answer of a bare Enter. Raises Declined."""
    end_progress()
    if is_asked(yes=yes) and not click.confirm(question, default=False, err=True):
        raise Declined
