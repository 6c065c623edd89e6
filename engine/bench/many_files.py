"""A table of 1,000 files in as many partitions, with statistics and a record index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data import ORDERING, PARTITION_BY, orders
from bench.workbench import Workbench
from tideline.hudi.table.table_config import COLUMN_STATS, INDEX_TYPE, PARTITION_STATS, RECORD_INDEX
from tideline.lake_table import LakeTable

FILES, ROWS = 1_000, 200_000
TABLE_NAME = "many-files"
NEAR = "customer"
"""A column whose values are near each other in one file."""


@dataclass(frozen=True, slots=True)
class ManyFiles:
    """The table, and the rows that are in it."""

    path: Path
    rows: pa.Table

    @classmethod
    def made(cls, bench: Workbench) -> ManyFiles:
        """The table in the version that Hudi makes now, from a file that is left beside it."""
        source, path = bench.fresh("many-files.parquet"), bench.fresh(TABLE_NAME)
        made = cls(path, rows_of_files(FILES))
        pq.write_table(made.rows, source)
        properties = {"hoodie.metadata.enable": "true", INDEX_TYPE: "RECORD_INDEX"}
        bench.tideline.load(path, source, table_version=9, properties=properties)
        for name in (COLUMN_STATS, PARTITION_STATS, RECORD_INDEX):
            LakeTable.open(str(path)).indexes().create(name)
        return made

    def changed(self, rows: int, files: int, turn: int) -> pa.Table:
        """So many of the rows in so many of the files, with later values."""
        return changed_rows(self.rows, rows, files, FILES, turn)


def rows_of_files(files: int) -> pa.Table:
    """Rows in so many partitions, by turns."""
    rows = orders(np.arange(ROWS), seed=0, report=0)
    file = np.arange(ROWS) % files
    near = pa.array(file * 1_000 + np.arange(ROWS) // files, pa.int32())
    rows = rows.set_column(rows.schema.get_field_index(NEAR), NEAR, near)
    regions = pa.array([f"r{number:04}" for number in file])
    return rows.set_column(rows.schema.get_field_index(PARTITION_BY), PARTITION_BY, regions)


def changed_rows(stored: pa.Table, rows: int, touched: int, files: int, turn: int) -> pa.Table:
    """So many of `rows_of_files(files)`, in so many of the files, with later values."""
    numbers = np.arange(rows)
    found = stored.take(numbers % touched + numbers // touched * files)
    at = found.schema.get_field_index(ORDERING)
    later = pa.array(np.full(rows, 2_000_000_000_000 + turn), pa.int64())
    return found.set_column(at, ORDERING, later)
