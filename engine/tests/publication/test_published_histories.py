"""Random histories of published tables, read by PyIceberg, Iceberg's Spark runtime and DuckDB.

`TIDELINE_SEED=<n>` begins with that seed, `TIDELINE_HISTORIES=<n>` has PyIceberg and DuckDB read so
many, Spark the first ten of them (`make histories`: 100).
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.testing.iceberg_peer import IcebergPeer, metadata_file
from tideline.testing.published_history import PublishedHistory, Rows

SEED = int(os.environ.get("TIDELINE_SEED", "0"))
HISTORIES = int(os.environ.get("TIDELINE_HISTORIES", "3"))
READ_BY_SPARK = 10


def by_pyiceberg(uri: str) -> pa.Table:
    return StaticTable.from_metadata(metadata_file(uri)).scan().to_arrow()


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_pyiceberg_reads_what_is_in_the_table_after_every_step(seed: int, tmp_path: Path) -> None:
    PublishedHistory(seed, tmp_path, {"PyIceberg": by_pyiceberg}).run(12)


@pytest.mark.interop
@pytest.mark.parametrize("number", range(HISTORIES))
def test_every_engine_reads_it_after_every_step(
    number: int, tmp_path: Path, iceberg_peer: IcebergPeer
) -> None:
    readers: dict[str, Rows] = {"PyIceberg": by_pyiceberg, "DuckDB": iceberg_peer.duckdb_read}
    if number < READ_BY_SPARK:
        readers["Spark"] = iceberg_peer.read
    PublishedHistory(SEED + 100 + number, tmp_path, readers).run(10)
