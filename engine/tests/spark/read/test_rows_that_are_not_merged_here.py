"""A merge-on-read table whose rows only its own payload class merges: base files are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.properties import update_table_properties
from tideline.hudi.table.table_config import TableType
from tideline.spark.read.data_source import register
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.spark


def test_reads_that_would_merge_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    table = SmallTable.create(
        StoreLocation.of(str(tmp_path / "own")),
        properties={"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
    )
    table.write("insert", batch(range(4), 1))
    first = table.write("upsert", batch([0], 2)).instant
    update_table_properties(table.store(), {"hoodie.compaction.payload.class": "com.acme.Own"})
    lake = table.lake()
    with pytest.raises(UnsupportedTableError, match="merged in a custom way"):
        lake.snapshot(spark)
    with pytest.raises(UnsupportedTableError, match="merged in a custom way"):
        lake.incremental(spark, after=str(int(first) - 1))
    register(spark)
    with pytest.raises(Exception, match="merged in a custom way"):
        spark.read.format("tideline").load(str(tmp_path / "own")).collect()
    with pytest.raises(UnsupportedTableError, match="merged in a custom way"):
        lake.write(spark.createDataFrame(batch([0], 3)))
    rows = lake.read_optimized(spark).select("id", "v").collect()
    assert sorted((row["id"], row["v"]) for row in rows) == [(f"k{n:03d}", 1) for n in range(4)]
