"""A table in memory with statistics of some columns, and what reads of it open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.testing.kept_statistics import begin_statistics
from tideline.testing.reads_by_statistics import read_counted
from tideline.testing.small_table import CHEAP, memory_place
from tideline.testing.table_audit import open_fresh


class TableOfStatistics:
    """Of the record key `id`, partitioned by `part`; `definition` is the version of what the index
    is defined as."""

    def __init__(
        self,
        schema: pa.Schema,
        indexed: Sequence[str],
        table_type: TableType,
        version: int,
        definition: str = "V2",
    ) -> None:
        self.location, self.clock = memory_place()
        LakeTable.create(
            self.location.uri,
            record_key=["id"],
            partition_by=["part"],
            schema=schema,
            table_type=table_type.value,
            table_version=version,
            properties=CHEAP,
            clock=self.clock,
        )
        begin_statistics(self.lake().hoodie_table, indexed, definition)

    def lake(self, store: Any = None) -> LakeTable:
        return LakeTable(open_fresh(self.location, store, self.clock))

    def read(self, condition: Any) -> tuple[list[str], int]:
        """Keys of what a condition selects, and how many data files were opened for them."""
        return read_counted(self.location, self.lake, condition)
