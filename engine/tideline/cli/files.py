"""`tideline list-files`: the files that make up a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from tideline.cli.any_table import any_table_options, open_any
from tideline.cli.command import command
from tideline.cli.iceberg_table import TableSource
from tideline.cli.output import print_json, print_line, print_table
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.wording import counted, size_text


@command("list-files")
@any_table_options
@click.option("--partition", metavar="PATH", help="Only one partition, by its path.")
@click.option("--as-of", metavar="TIME", help="The files as they were at a time, as for read.")
def list_files_command(
    source: TableSource, as_json: bool, partition: str | None, as_of: str | None
) -> None:
    """List the newest file of every file group of the table at URI; of an Iceberg table its data
    files."""
    table = open_any(source)
    if not isinstance(table, HoodieTable):
        # Takes a tenth of a second to import, which Hudi tables need not wait for.
        from tideline.cli.iceberg_files import list_data_files

        list_data_files(table, partition, as_of, as_json=as_json)
        return
    rows = [_describe(file_slice) for file_slice in _slices(table, partition, as_of)]
    if as_json:
        print_json({"files": rows})
        return
    print_table(
        ("partition", "file", "instant", "size", "logs"),
        [
            (row["partition"], row["base_file"], row["instant"], size_text(row["size_bytes"]),
             len(row["log_files"]))
            for row in rows
        ],
    )  # fmt: skip
    total = size_text(sum(row["size_bytes"] for row in rows))
    print_line(f"{counted(len(rows), 'file group')}, {total}")


def _slices(table: HoodieTable, partition: str | None, as_of: str | None) -> Iterable[FileSlice]:
    if as_of is not None:
        # Arrow is an optional dependency that only reads need.
        from tideline.hudi.read.time_travel import table_as_of

        slices = table_as_of(table, as_of).slices()
        return (
            file_slice for file_slice in slices if partition in (None, file_slice.group.partition)
        )
    view = table.files.read_view(table.timeline(), None if partition is None else [partition])
    return (file_slice for name in view.partitions for file_slice in view.latest_slices(name))


def _describe(file_slice: FileSlice) -> dict[str, Any]:
    return {
        "partition": file_slice.group.partition,
        "file_id": file_slice.group.file_id,
        "instant": str(file_slice.base_instant),
        "base_file": None if file_slice.base_file is None else file_slice.base_file.path,
        "log_files": [log.path for log in file_slice.log_files],
        "size_bytes": file_slice.size_bytes,
    }
