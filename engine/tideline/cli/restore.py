"""`tideline restore`: take a table back to a savepoint, or say what that would undo."""

from __future__ import annotations

import click

from tideline.cli.options import table_options
from tideline.cli.output import print_json, print_line
from tideline.hudi.services.restore.execute import RestoreDone, preview_restore, restore_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.wording import size_text


@click.command("restore")
@table_options
@click.option("--to", "instant", required=True, metavar="INSTANT", help="The savepoint.")
@click.option("--dry-run", is_flag=True, help="Say what would be undone and deleted, do nothing.")
def restore_command(
    uri: str, storage: dict[str, str], as_json: bool, instant: str, dry_run: bool
) -> None:
    """Take the table at URI back to the savepoint INSTANT: every later write is undone for good.

    Nobody can write meanwhile. A restore that died is finished by the same command.
    """
    table = HoodieTable.open(StoreLocation.of(uri, storage))
    act = preview_restore if dry_run else restore_table
    done = act(table, InstantTime.parse(instant))
    if as_json:
        print_json({**done.to_json_object(), "dry_run": dry_run})
        return
    _print(done)


def _print(done: RestoreDone) -> None:
    is_done = done.instant is not None
    for item in done.undone:
        print_line(
            f"{'Undid' if is_done else 'Would undo'} {item.name.time} ({item.name.action}): "
            f"{len(item.deleted)} files, {len(item.command_logs)} log files marked."
        )
        for path, size_bytes in item.deleted.items():
            print_line(f"  {path}  {size_text(size_bytes)}")
    files = sum(len(item.deleted) for item in done.undone)
    total = f"{len(done.undone)} instants, {files} files, {size_text(done.bytes_deleted)}"
    if is_done:
        print_line(f"The table is back at {done.savepoint}: {total} undone.")
    else:
        print_line(f"Restoring to {done.savepoint} would undo {total}.")
