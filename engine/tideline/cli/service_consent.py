"""Looking before a service is run: `--dry-run` plans it, and a question comes before it deletes.

Whether it deletes is what its plan says. Rolling dead writers back deletes only what no reader ever
saw, and every writer does it on its own: that is not asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import click

from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import parse_pairs
from tideline.cli.progress import progress
from tideline.cli.serviced_table import open_serviced, service_called
from tideline.errors import ConfigError
from tideline.services.explanation import Explanation
from tideline.wording import counted, size_text

_Command = Callable[..., None]


def looks_first(plan: click.Command) -> Callable[[_Command], _Command]:
    """Add `--dry-run`, which calls `plan` instead, and `--yes` to a command that runs a service."""

    def decorate(execute: _Command) -> _Command:
        @wraps(execute)
        def checked(*, dry_run: bool, yes: bool, **given: Any) -> None:
            service, uri = given["service"], given["uri"]
            is_named = service is not None and uri is not None
            if dry_run:
                if not is_named or given["operation_path"] is not None:
                    raise ConfigError("--dry-run takes a SERVICE and a table URI")
                _plan_instead(plan, (service, uri))
                return
            if given["operation_path"] is not None or not is_named:
                execute(**given)
                return
            if is_asked(yes=yes):
                _ask(service, replace(given["place"], target=uri), given["options"])
            with progress(f"running {service}"):
                execute(**given)

        return dry_run_option("Show what would be done, as `plan` does; change nothing.")(
            yes_option(checked)
        )

    return decorate


def _plan_instead(plan: click.Command, target: tuple[str, str]) -> None:
    """With the arguments of this command that `plan` has as well."""
    context = click.get_current_context()
    names = {param.name for param in plan.params} & set(context.params)
    context.invoke(plan, target=target, **{str(name): context.params[str(name)] for name in names})


def _ask(service: str, source: TableSource, options: tuple[str, ...]) -> None:
    wanted = service_called(service)
    table = open_serviced(source, wanted)
    with progress(f"planning {service}"):
        outcome = table.plan(service, options=parse_pairs(options, option="--option")).outcome
    if isinstance(outcome, Explanation) and (outcome.bytes_deleted or wanted.deletes_files):
        files = counted(len(outcome.paths), "file")
        size = size_text(outcome.bytes_deleted)
        ask(f"{service} deletes {files}, {size}, of {table.uri}. Continue?", yes=False)
