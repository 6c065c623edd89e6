"""Random histories of published tables, read by PyIceberg, Iceberg's Spark runtime and DuckDB."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from tideline.testing.iceberg_peer import IcebergPeer, metadata_file
from tideline.testing.published_history import PublishedHistory, Rows

SEED = int(os.environ.get("TIDELINE_SEED", "0"))


def by_pyiceberg(uri: str) -> pa.Table:
    return StaticTable.from_metadata(metadata_file(uri)).scan().to_arrow()


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_pyiceberg_reads_what_is_in_the_table_after_every_step(seed: int, tmp_path: Path) -> None:
    PublishedHistory(seed, tmp_path, {"PyIceberg": by_pyiceberg}).run(12)


@pytest.mark.interop
@pytest.mark.parametrize("seed", range(SEED + 100, SEED + 103))
def test_spark_and_duckdb_read_it_after_every_step(
    seed: int, tmp_path: Path, iceberg_peer: IcebergPeer
) -> None:
    readers: dict[str, Rows] = {"Spark": iceberg_peer.read, "DuckDB": iceberg_peer.duckdb_read}
    PublishedHistory(seed, tmp_path, readers).run(10)
