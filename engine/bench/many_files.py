"""A table of many files in as many partitions, with statistics and a record index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import ORDERING, PARTITION_BY, orders
from bench.hudi_side import ONE_FILE_PER_PARTITION
from bench.workbench import Workbench
from tideline.hudi.table.table_config import COLUMN_STATS, INDEX_TYPE, PARTITION_STATS, RECORD_INDEX
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import version_options

FILES, ROWS = 1_000, 200_000
TABLE_NAME = "many-files"
NEAR = "customer"
"""A column whose values are near each other in one file."""
INDEXES = (COLUMN_STATS, PARTITION_STATS, RECORD_INDEX)
INDEXED = {
    **version_options(9),
    "hoodie.table.name": TABLE_NAME,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
"""Options of Hudi's, which look keys up in the record index and keep all `INDEXES`."""


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """The table, the rows that are in it, and how many files these are dealt out to."""

    path: Path
    rows: pa.Table
    files: int

    @classmethod
    def made(cls, bench: Workbench) -> ManyFiles:
        """The table in the version that Hudi makes now, from a file that is left beside it."""
        made, source = cls._with_rows(bench, FILES)
        properties = {"hoodie.metadata.enable": "true", INDEX_TYPE: "RECORD_INDEX"}
        bench.tideline.load(made.path, source, table_version=9, properties=properties)
        for name in INDEXES:
            LakeTable.open(str(made.path)).indexes().create(name)
        return made

    @classmethod
    def made_by_hudi(cls, bench: Workbench, files: int) -> ManyFiles:
        """The table as Hudi makes it, with all indexes."""
        made, source = cls._with_rows(bench, files)
        options = {**INDEXED, **ONE_FILE_PER_PARTITION}
        bench.hudi.write(made.path, source, operation="bulk_insert", options=options)
        require_indexes(made.path)
        return made

    @classmethod
    def _with_rows(cls, bench: Workbench, files: int) -> tuple[ManyFiles, Path]:
        """The table before it is made, and the file of its rows."""
        source, path = bench.fresh("many-files.parquet"), bench.fresh(TABLE_NAME)
        made = cls(path, _rows(files), files)
        pq.write_table(made.rows, source)
        return made, source

    def changed(self, rows: int, touched: int, turn: int) -> pa.Table:
        """So many of the rows in so many of the files, with later values."""
        numbers = np.arange(rows)
        found = self.rows.take(numbers % touched + numbers // touched * self.files)
        at = found.schema.get_field_index(ORDERING)
        later = pa.array(np.full(rows, 2_000_000_000_000 + turn), pa.int64())
        return found.set_column(at, ORDERING, later)


def require_indexes(table: Path) -> None:
    """Raise AssertionError unless the metadata table has all indexes."""
    listed = LakeTable.open(str(table)).hoodie_table.config.metadata_partitions
    assert set(INDEXES) <= set(listed), "all are kept"


def _rows(files: int) -> pa.Table:
    rows = orders(np.arange(ROWS), seed=0, report=0)
    file = np.arange(ROWS) % files
    near = pa.array(file * 1_000 + np.arange(ROWS) // files, pa.int32())
    rows = rows.set_column(rows.schema.get_field_index(NEAR), NEAR, near)
    regions = pa.array([f"r{number:04}" for number in file])
    return rows.set_column(rows.schema.get_field_index(PARTITION_BY), PARTITION_BY, regions)
