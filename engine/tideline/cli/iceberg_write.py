"""`tideline write` for an Iceberg table: what its options ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.cli.any_table import refuse_options
from tideline.cli.options import parse_pairs
from tideline.hudi.table.names import column_names
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.write.row_change import branch_head
from tideline.iceberg.write.write_request import IcebergWrite
from tideline.iceberg.write.write_settings import WriteSettings


def asked_write(table: IcebergTable, asked: Mapping[str, Any]) -> IcebergWrite:
    """The write that options name. Raises ConfigError for what no write of this table can be."""
    refuse_options("Iceberg", verb="written", strict=asked["strict"])
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
