"""The data files of an Iceberg table for `tideline list-files`."""

from __future__ import annotations

from tideline.cli.output import print_json, print_line, print_table
from tideline.clock import SystemClock
from tideline.iceberg.read.listings import file_rows
from tideline.iceberg.read.snapshot_choice import SnapshotChoice
from tideline.iceberg.table.open_table import IcebergTable
from tideline.wording import counted, size_text


def list_data_files(
    table: IcebergTable, partition: str | None, as_of: str | None, *, as_json: bool
) -> None:
    """Print the data files, of one partition if asked for, with how many deletes apply to each."""
    choice = SnapshotChoice.of(table.metadata, as_of, now_ms=SystemClock().now_ms())
    rows = [row for row in file_rows(table.io, choice) if partition in (None, row["partition"])]
    if as_json:
        print_json({"files": rows})
        return
    print_table(
        ("partition", "file", "rows", "size", "deletes"),
        [
            (row["partition"], row["file"], row["rows"], size_text(row["size_bytes"]),
             len(row["delete_files"]))
            for row in rows
        ],
    )  # fmt: skip
    total = size_text(sum(row["size_bytes"] for row in rows))
    print_line(f"{counted(len(rows), 'data file')}, {total}")
