"""`tideline savepoint`: keep a state of a table to go back to, list what is kept, give one up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tideline.cli.command import TidelineCommand, WholeWordContext
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.hudi.services.savepoint.execute import (
    create_savepoint,
    delete_savepoint,
    find_savepoint,
    list_savepoints,
    preview_savepoint,
)
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.wording import counted


@click.group("savepoint")
def savepoint_command() -> None:
    """Keep a state of a table from being cleaned, so that `tideline restore` can go back to it."""


savepoint_command.context_class = WholeWordContext


@savepoint_command.command("create", cls=TidelineCommand)
@table_options
@click.argument("instant", required=False)
@click.option("--by", envvar="USER", default="", help="Who creates it; otherwise USER.")
@click.option("--comment", default="", help="What it is for.")
@dry_run_option("Show what would be kept; change nothing.")
def create_command(
    uri: str,
    storage: dict[str, str],
    as_json: bool,
    instant: str | None,
    by: str,
    comment: str,
    dry_run: bool,
) -> None:
    """Keep the table at URI as of INSTANT, a completed commit; by default the newest one."""
    time = InstantTime.parse(instant) if instant else None
    act = preview_savepoint if dry_run else create_savepoint
    savepoint = act(_open(uri, storage), time, user=by, comment=comment)
    if as_json:
        print_json({**_describe(savepoint), "dry_run": dry_run})
        return
    kept = "Would keep" if dry_run else "Kept"
    files = counted(savepoint.file_count, "file")
    print_line(f"{kept} {savepoint.instant}: {files} safe from cleaning.")


@savepoint_command.command("list", cls=TidelineCommand)
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


@savepoint_command.command("delete", cls=TidelineCommand)
@table_options
@click.argument("instant")
@dry_run_option("Show what would be given up; change nothing.")
@yes_option
def delete_command(
    uri: str, storage: dict[str, str], as_json: bool, instant: str, dry_run: bool, yes: bool
) -> None:
    """Give up the savepoint INSTANT of the table at URI: cleaning may delete what only it kept."""
    table, time = _open(uri, storage), InstantTime.parse(instant)
    if not dry_run and is_asked(yes=yes):
        kept = counted(find_savepoint(table, time).file_count, "file")
        ask(f"Give up the savepoint {time}, which keeps {kept} from being cleaned?", yes=yes)
    savepoint = (find_savepoint if dry_run else delete_savepoint)(table, time)
    if as_json:
        print_json({"deleted": _describe(savepoint), "dry_run": dry_run})
        return
    given_up = "Would give up" if dry_run else "Gave up"
    print_line(f"{given_up} {savepoint.instant}: cleaning may delete what only it kept.")


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
