"""On Spark, a key that a Flink job appended to a log on top of a base file is found again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.flink_append import append_as_flink
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_a_key_in_a_log_alone_is_upserted_where_it_is(
    index: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = SmallTable.create(
        StoreLocation.of(tmp_path / "table"),
        properties={"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
    )
    table.write("insert", batch([0, 1], 1))
    append_as_flink(table, [0, 2, 4, 3], 2)
    table.store().put(".hoodie/.aux/ckp_meta/20260101000000000.COMPLETED", b"")
    lake = LakeTable.open(table.location.uri)
    rows = spark.createDataFrame(batch([2, 3, 6], 3))
    report = lake.write(rows, options={"hoodie.index.type": index})
    assert (report.rows_updated, report.rows_inserted) == (2, 1)
    expected = {0: 2, 1: 1, 2: 3, 3: 3, 4: 2, 6: 3}
    assert table.values() == [(f"k{number:03d}", v) for number, v in expected.items()]
    assert lake.check(keys=True) == ()
