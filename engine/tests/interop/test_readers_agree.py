"""After every operation of ours, Hudi's bundle and hudi-rs read what we read and the model says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import SCHEMA, typed_rows
from tideline.testing.interop_table import InteropLayout, InteropTable

pytestmark = [pytest.mark.interop, pytest.mark.spark]

LAYOUTS = (
    InteropLayout("unpartitioned", partition_by=()),
    InteropLayout("partitioned", index="BLOOM"),
    InteropLayout(
        "complex",
        record_key=("id", "line"),
        partition_by=("region", "line"),
        hive_style=True,
    ),
)


@pytest.mark.slow_with("complex")
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(
            interop_layout,
            id=interop_layout.name,
            marks=[] if interop_layout.name == "complex" else pytest.mark.slow,
        )
        for interop_layout in LAYOUTS
    ],
)
def test_all_readers_see_the_model_after_every_operation(
    layout: InteropLayout, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = InteropTable(layout, tmp_path, spark, hudi_peer)
    table.create(SCHEMA)
    steps = [
        ("bulk_insert", typed_rows(range(30), version=2)),
        ("insert", typed_rows(range(30, 40), version=2)),
        ("upsert", typed_rows(range(5, 45, 3), version=3)),
        ("upsert", typed_rows(range(0, 20, 2), version=1)),
        ("delete", typed_rows(range(0, 60, 4), version=9)),
        ("insert_overwrite", typed_rows(range(100, 104), version=4, regions=("south",))),
        ("upsert", typed_rows(range(98, 103), version=5, regions=("south",))),
    ]
    if layout.partition_by:
        steps.append(("delete_partition", typed_rows(range(1, 2), version=1)))
    steps.append(("insert_overwrite_table", typed_rows(range(200, 205), version=6)))
    for operation, rows in steps:
        table.write(operation, rows)
        table.check()


@pytest.mark.slow
def test_url_encoded_partitions_read_the_same(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    layout = InteropLayout("encoded", url_encode=True)
    table = InteropTable(layout, tmp_path, spark, hudi_peer)
    table.create(SCHEMA)
    regions = ("süd/ost", "a b", "50%:x")
    table.write("insert", typed_rows(range(12), version=1, regions=regions))
    table.check()
    table.write_with_hudi("upsert", typed_rows(range(6, 15), version=2, regions=regions))
    table.check()
    table.write("delete", typed_rows(range(0, 15, 2), version=3, regions=regions))
    table.check()
