"""How the commands that change an Iceberg table's definition run: planned, asked, committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tideline.cli.consent import ask, dry_run_option, yes_option
from tideline.cli.iceberg_table import TableSource, iceberg_table_options
from tideline.cli.output import print_json, print_line
from tideline.clock import SystemClock
from tideline.iceberg.evolution.changes import IcebergChanges
from tideline.iceberg.evolution.step import Step


def change_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add TABLE, its options, and `--dry-run`."""
    return iceberg_table_options(dry_run_option()(command))


def asked_change_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same for what there is no way back from: `--yes` as well."""
    return change_options(yes_option(command))


def run_change(
    source: TableSource,
    *steps: Step,
    as_json: bool,
    dry_run: bool,
    question: str | None = None,
    yes: bool = True,
) -> None:
    """Make changes as one commit, and say what was done. On a terminal `question` comes first."""
    table = source.open()
    changes = IcebergChanges(table, SystemClock())
    for step in steps:
        changes.add(step)
    plan = changes.plan()
    location = None
    if not (dry_run or plan.is_empty):
        if question is not None:
            ask(question, yes=yes)
        location = changes.commit()
    if as_json:
        document: dict[str, Any] = {"table": table.io.location.uri, **plan.to_json_object()}
        print_json({**document, "dry_run": dry_run, "metadata": location})
        return
    if plan.is_empty:
        print_line("Nothing to change: the table is so already.")
        return
    verb = "Would" if dry_run else "Done:"
    for text in plan.steps:
        print_line(f"{verb} {text}.")
