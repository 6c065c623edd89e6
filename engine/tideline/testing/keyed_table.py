"""A table of a file in each partition, with a record index and secondary indexes.

What its columns say is not what its partitions say: only an index tells which files have a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tideline.clock import Clock
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.table_scan import TableScan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.kept_statistics import begin_record_index, begin_secondary_index
from tideline.testing.reads_by_statistics import compare_reads, read_counted
from tideline.testing.small_table import CHEAP, QUIET, memory_place
from tideline.testing.table_audit import open_fresh

PARTITIONS = 10
CITIES = ("Bern", "B$rn", "B\\rn", "B", "", "Zürich \U0001f600", "a,b:c")
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("n", pa.int64()), ("city", pa.string())]
)


def id_of(number: int) -> str:
    """The key of a row."""
    return f"{CITIES[number % len(CITIES)]}${number}"


def row_of(number: int, v: int = 0) -> dict[str, Any]:
    """Rows whose values say nothing of their partition."""
    city = None if (number + v) % 11 == 5 else CITIES[(number + v) % len(CITIES)] + str(number % 9)
    part = f"p{number * 7 % PARTITIONS}"
    return {"id": id_of(number), "part": part, "n": (number * 31 + v) % 97 - 40, "city": city}


@dataclass
class KeyedTable:
    """The table; without secondary indexes where these are not kept."""

    table_type: TableType = TableType.COPY_ON_WRITE
    version: int = 9
    is_partitioned: bool = False
    place: tuple[StoreLocation, Clock] = field(default_factory=memory_place)

    def __post_init__(self) -> None:
        LakeTable.create(
            self.location.uri,
            record_key=["id"],
            partition_by=["part"],
            schema=SCHEMA,
            table_type=self.table_type.value,
            table_version=self.version,
            properties=CHEAP,
            clock=self.place[1],
        )
        table = self.table()
        bootstrap_metadata_table(table, table.timeline())
        begin_record_index(table, is_partitioned=self.is_partitioned)
        if self.has_values:
            for column in ("city", "n"):
                begin_secondary_index(table, column, "V2" if self.version == 9 else "V1")

    @property
    def has_values(self) -> bool:
        """Whether it has secondary indexes."""
        return self.version > 6 and not self.is_partitioned

    @property
    def location(self) -> StoreLocation:
        return self.place[0]

    def table(self, store: Any = None) -> HoodieTable:
        return open_fresh(self.location, store, self.place[1])

    def lake(self, store: Any = None) -> LakeTable:
        return LakeTable(self.table(store))

    def write(self, numbers: Any, v: int = 0, operation: str = "upsert") -> None:
        rows = pa.Table.from_pylist([row_of(number, v) for number in numbers], SCHEMA)
        self.lake().write(rows, operation, options=QUIET)

    def read(self, condition: Any) -> tuple[list[str], int]:
        """Keys of what a condition selects, and how many data files were opened for them."""
        return read_counted(self.location, self.lake, condition)

    def files_with(self, condition: str) -> int:
        """How many files have the rows, while each partition has one."""
        return len(self.lake().to_arrow(["part"], condition)["part"].unique())

    def compare(self, condition: Any) -> tuple[int, int]:
        """Files opened without indexes and with them, for the same rows."""
        return compare_reads(self.read, condition)


def opened_by(table: HoodieTable, scan: TableScan, condition: str) -> int:
    """How many slices a scan reads for a condition."""
    return len(ArrowScan.of(table, scan, ["id"], condition).tasks)
