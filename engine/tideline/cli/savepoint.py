"""`tideline savepoint`: keep a state of a table to go back to, list what is kept, give one up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.hudi.services.savepoint.execute import (
    create_savepoint,
    delete_savepoint,
    list_savepoints,
)
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation


@click.group("savepoint")
def savepoint_command() -> None:
    """Keep a state of a table from being cleaned, so that `tideline restore` can go back to it."""


@savepoint_command.command("create")
@table_options
@click.argument("instant", required=False)
@click.option("--by", envvar="USER", default="", help="Who wants it; else the USER in charge.")
@click.option("--comment", default="", help="What it is for.")
def create_command(
    uri: str, storage: dict[str, str], as_json: bool, instant: str | None, by: str, comment: str
) -> None:
    """Keep the table at URI as of INSTANT, a completed commit; the newest one unless told."""
    time = InstantTime.parse(instant) if instant else None
    savepoint = create_savepoint(_open(uri, storage), time, user=by, comment=comment)
    if as_json:
        print_json(_describe(savepoint))
        return
    print_line(f"Kept {savepoint.instant}: {savepoint.file_count} files are safe from cleaning.")


@savepoint_command.command("list")
@table_options
def list_command(uri: str, storage: dict[str, str], as_json: bool) -> None:
    """List the savepoints of the table at URI, oldest first."""
    rows = [_describe(savepoint) for savepoint in list_savepoints(_open(uri, storage))]
    if as_json:
        print_json({"savepoints": rows})
        return
    if not rows:
        print_line("No savepoints.")
        return
    columns = ("instant", "state", "files", "by", "at", "comment")
    print_table(columns, [[row[column] for column in columns] for row in rows])


@savepoint_command.command("delete")
@table_options
@click.argument("instant")
def delete_command(uri: str, storage: dict[str, str], as_json: bool, instant: str) -> None:
    """Give up the savepoint INSTANT of the table at URI."""
    savepoint = delete_savepoint(_open(uri, storage), InstantTime.parse(instant))
    if as_json:
        print_json({"deleted": _describe(savepoint)})
        return
    print_line(f"Gave up {savepoint.instant}: cleaning may delete what only it kept.")


def _open(uri: str, storage: dict[str, str]) -> HoodieTable:
    return HoodieTable.open(StoreLocation.of(uri, storage))


def _describe(savepoint: Savepoint) -> dict[str, Any]:
    moment = datetime.fromtimestamp(savepoint.created_at_ms / 1000, tz=UTC)
    return {
        "instant": str(savepoint.instant),
        "state": "completed" if savepoint.is_completed else "unfinished",
        "files": savepoint.file_count,
        "by": savepoint.created_by,
        "at": moment.isoformat(timespec="seconds") if savepoint.created_at_ms else "",
        "comment": savepoint.comment,
    }
