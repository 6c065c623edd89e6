"""`tideline changes`: what commits did to the rows of a table of either format, oldest first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

import click
import pyarrow as pa

from tideline.cli.any_table import any_table_options, open_any, refuse_options
from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource
from tideline.cli.options import limit_option
from tideline.cli.output import print_json, print_line, print_rows, shown_document
from tideline.cli.progress import progress
from tideline.hudi.read.shown_rows import ShownRows, as_many
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import shown_names
from tideline.lake_table import LakeTable

if TYPE_CHECKING:
    from tideline.iceberg.table.open_table import IcebergTable


class _Feed(Protocol):
    """The changes of a table of either format."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def until(self) -> object: ...

    def batches(self) -> Iterable[pa.RecordBatch]: ...


@command("changes")
@any_table_options
@click.option(
    "--after",
    metavar="INSTANT",
    default="0",
    help="Only changes of commits after this one, or after a time; of an Iceberg table after a "
    "snapshot, a branch, a tag or a time. All that the table keeps without.",
)
@click.option("--until", metavar="INSTANT", help="Only changes up to then.")
@limit_option("At most N changes, or all.")
@click.option("--meta", is_flag=True, help="With Hudi's own columns (_hoodie_commit_time, ...).")
def changes_command(
    source: TableSource,
    as_json: bool,
    after: str,
    until: str | None,
    limit: int | None,
    meta: bool,
) -> None:
    """Print what commits did to the rows of the table at URI: INSERT, UPDATE_BEFORE and
    UPDATE_AFTER, DELETE.

    An update is two rows: as it was, and as it is. The last line, `until` with --json, says what
    to begin after the next time. What a key comes down to: tideline read --after --deletes.
    """
    with progress("reading changes"):
        feed = _opened(source, after, until, meta=meta)
        names = shown_names(feed.schema.names, meta=meta)
        found = _first(feed, names, limit)
    # What was not shown has not been followed.
    place = str(feed.until) if found.complete else None
    if as_json:
        print_json({**shown_document(found), "until": place}, are_rows=True)
        return
    print_rows(found, limit, as_json=False)
    if place is not None:
        print_line(f"Next: --after {place}")


def _opened(source: TableSource, after: str, until: str | None, *, meta: bool) -> _Feed:
    table = open_any(source)
    if isinstance(table, HoodieTable):
        return LakeTable(table).changes(after, until)
    refuse_options("Iceberg", meta=meta)
    return _of_iceberg(table, after, until)


def _of_iceberg(table: IcebergTable, after: str, until: str | None) -> _Feed:
    # Takes a tenth of a second to import, which Hudi tables need not wait for.
    from tideline.cli.iceberg_read import iceberg_changes

    return iceberg_changes(table, after, until)


def _first(feed: _Feed, names: list[str], limit: int | None) -> ShownRows:
    found = list(as_many(feed.batches(), limit))
    return ShownRows.of(pa.Table.from_batches(found, feed.schema).select(names), limit)
