"""`tideline savepoint`: keep a state of a table to go back to, list what is kept, give one up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tideline.cli.command import TidelineCommand, WholeWordContext
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line, print_table
from tideline.hudi.services.savepoint.record import Savepoint
from tideline.wording import counted

_OF_ICEBERG = "`tideline iceberg tag` keeps its snapshots"


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
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    savepoint = table.savepoint(instant, by=by, comment=comment, dry_run=dry_run)
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
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    rows = [_describe(savepoint) for savepoint in table.savepoints()]
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
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    if not dry_run and is_asked(yes=yes):
        kept = counted(table.delete_savepoint(instant, dry_run=True).file_count, "file")
        ask(f"Give up the savepoint {instant}, which keeps {kept} from being cleaned?", yes=yes)
    savepoint = table.delete_savepoint(instant, dry_run=dry_run)
    if as_json:
        print_json({"deleted": _describe(savepoint), "dry_run": dry_run})
        return
    given_up = "Would give up" if dry_run else "Gave up"
    print_line(f"{given_up} {savepoint.instant}: cleaning may delete what only it kept.")


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
