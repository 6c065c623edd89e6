"""`tideline write` for an Iceberg table: Parquet files, read in this process file by file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.cli.any_table import refuse_options
from tideline.cli.options import parse_pairs
from tideline.clock import SystemClock
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.table.names import column_names
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.given_rows import StreamedRows
from tideline.iceberg.write.row_change import branch_head
from tideline.iceberg.write.source_files import file_streams
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg.write.write_settings import WriteSettings
from tideline.iceberg_writing import write_given
from tideline.ingest.sources.files.named_files import UNNAMABLE, Sources


def asked_write(table: IcebergTable, source_format: str, asked: Mapping[str, Any]) -> IcebergWrite:
    """The write that options name. Raises ConfigError for what no write of this table can be."""
    if source_format != "parquet":
        message = (
            "the source files of an Iceberg table are Parquet; csv and JSON are taken in by "
            "`tideline run`, as the ingest of a LakeTable (`tideline init FOLDER` writes one)"
        )
        raise ConfigError(message, table=table.metadata.location, value=source_format)
    refuse_options(
        "Iceberg",
        verb="written",
        read_option=asked["read_options"],
        strict=asked["strict"],
        on_bad_file=asked["on_bad_file"] != "fail",
        on_bad_row=asked["on_bad_row"] != "fail",
    )
    write = IcebergWrite.asked(
        asked["operation"],
        branch=asked["branch"] or MAIN,
        token=asked["token"],
        options=parse_pairs(asked["options"], option="--option"),
        where=asked["where"],
        key=column_names(asked["key"] or ""),
    )
    branch_head(table.metadata, write.branch)
    WriteSettings.of(table.metadata, write.options)
    return write


def write_files(table: IcebergTable, write: IcebergWrite, sources: Sources) -> CommitReport:
    """Write the files' rows. Raises InvalidDataError naming a file, and as `write_given`."""
    folder = sources.folder
    if sources.unnamable:
        path = f"{folder.uri}/{sources.unnamable[0]}"
        raise InvalidDataError(f"source file cannot be taken in: {UNNAMABLE}", path=path)
    streams = file_streams(folder.open(), folder.uri, sources.paths)
    return write_given(table, StreamedRows(streams), write, SystemClock())
