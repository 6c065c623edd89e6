"""`tideline restore`: take a table back to a savepoint, or say what that would undo."""

from __future__ import annotations

import click

from tideline.cli.command import command
from tideline.cli.consent import ask, dry_run_option, is_asked, yes_option
from tideline.cli.hudi_only import open_hudi
from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.cli.progress import progress
from tideline.hudi.services.restore.execute import RestoreDone
from tideline.wording import counted, size_text

_OF_ICEBERG = "`tideline iceberg rollback` takes it back"


@command("restore")
@table_options
@click.option("--to", "instant", required=True, metavar="INSTANT", help="The savepoint.")
@dry_run_option("Show what would be undone and deleted; change nothing.")
@yes_option
def restore_command(
    uri: str, storage: dict[str, str], as_json: bool, instant: str, dry_run: bool, yes: bool
) -> None:
    """Take the table at URI back to the savepoint INSTANT: every later write is undone for good.

    No writer can write during a restore. A restore that died is finished by the same command.
    """
    table = open_hudi(uri, storage, of_iceberg=_OF_ICEBERG)
    if not dry_run and is_asked(yes=yes):
        ask(f"{_would_undo(table.restore(instant, dry_run=True))} Continue?", yes=yes)
    with progress("looking what to undo" if dry_run else "restoring the table"):
        done = table.restore(instant, dry_run=dry_run)
    if as_json:
        print_json({**done.to_json_object(), "dry_run": dry_run})
        return
    _print(done)


def _print(done: RestoreDone) -> None:
    is_done = done.instant is not None
    for item in done.undone:
        print_line(
            f"{'Undid' if is_done else 'Would undo'} {item.name.time} ({item.name.action}): "
            f"{counted(len(item.deleted), 'file')}, "
            f"{counted(len(item.command_logs), 'log file')} marked."
        )
        for path, size_bytes in item.deleted.items():
            print_line(f"  {path}  {size_text(size_bytes)}")
    if is_done:
        print_line(f"The table is back at {done.savepoint}: {_total(done)} undone.")
    else:
        print_line(_would_undo(done))


def _would_undo(done: RestoreDone) -> str:
    return f"Restoring to {done.savepoint} would undo {_total(done)}."


def _total(done: RestoreDone) -> str:
    files = counted(sum(len(item.deleted) for item in done.undone), "file")
    return f"{counted(len(done.undone), 'instant')}, {files}, {size_text(done.bytes_deleted)}"
