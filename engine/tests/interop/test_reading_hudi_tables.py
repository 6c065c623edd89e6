"""We read tables that Hudi's bundle writes (version 6), after every operation of its."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import typed_rows
from tideline.testing.interop_table import (
    METADATA_TABLE_OFF,
    METADATA_TABLE_ON,
    InteropLayout,
    InteropTable,
)

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

TABLES = (
    pytest.param(InteropLayout("unpartitioned", partition_by=()), METADATA_TABLE_OFF, id="flat"),
    pytest.param(InteropLayout("partitioned"), METADATA_TABLE_ON, id="partitioned-metadata"),
    pytest.param(
        InteropLayout(
            "complex",
            record_key=("id", "line"),
            hive_style=True,
        ),
        METADATA_TABLE_OFF,
        id="complex",
    ),
)


@pytest.mark.parametrize(("layout", "options"), TABLES)
def test_we_read_the_model_after_every_operation_of_hudi(
    layout: InteropLayout,
    options: dict[str, str],
    tmp_path: Path,
    spark: SparkSession,
    hudi_peer: HudiPeer,
) -> None:
    table = InteropTable(layout, tmp_path, spark, hudi_peer)
    steps = [
        ("bulk_insert", typed_rows(range(30), version=2)),
        ("insert", typed_rows(range(30, 40), version=2)),
        ("upsert", typed_rows(range(5, 45, 3), version=3)),
        ("upsert", typed_rows(range(0, 20, 2), version=1)),
        ("delete", typed_rows(range(0, 60, 4), version=9)),
        ("insert_overwrite", typed_rows(range(100, 104), version=4, regions=("south",))),
    ]
    if layout.partition_by and len(layout.record_key) == 1:
        steps.append(("delete_partition", typed_rows(range(1, 2), version=1)))
    steps.append(("insert_overwrite_table", typed_rows(range(200, 205), version=6)))
    for operation, rows in steps:
        table.write_with_hudi(operation, rows, options)
        assert table.model.canonical(table.read()) == table.model.rows(), operation
    table.check()
