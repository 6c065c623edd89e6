"""Tideline and Hudi take turns on one table, with Hudi's metadata table on and off, and agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import SCHEMA, typed_rows
from tideline.testing.interop_table import (
    METADATA_TABLE_OFF,
    METADATA_TABLE_ON,
    InteropLayout,
    InteropTable,
)

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

FOUR_BUCKETS = {"hoodie.bucket.index.num.buckets": "4"}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("index", "options"),
    [
        pytest.param("BLOOM", METADATA_TABLE_ON, id="bloom-metadata"),
        pytest.param("BLOOM", METADATA_TABLE_OFF, id="bloom"),
        pytest.param("SIMPLE", METADATA_TABLE_OFF, id="simple"),
        pytest.param("GLOBAL_BLOOM", METADATA_TABLE_OFF, id="global-bloom"),
        pytest.param("GLOBAL_SIMPLE", METADATA_TABLE_OFF, id="global-simple"),
        pytest.param("BUCKET", METADATA_TABLE_OFF, id="bucket"),
    ],
)
def test_upserts_and_deletes_of_both_engines_add_up(
    index: str,
    options: dict[str, str],
    version: int,
    tmp_path: Path,
    spark: SparkSession,
    hudi_peer: HudiPeer,
) -> None:
    properties = FOUR_BUCKETS if index == "BUCKET" else {}
    layout = InteropLayout("shared", index=index, properties=properties, version=version)
    table = InteropTable(layout, tmp_path, spark, hudi_peer)
    table.create(SCHEMA)
    # A global index moves a row whose region changed; the others hold one row per region.
    moved = 1 if index.startswith("GLOBAL_") else 0
    table.write("insert", typed_rows(range(20), version=1))
    table.write_with_hudi("upsert", typed_rows(range(10, 30), version=2, shift=moved), options)
    table.write("upsert", typed_rows(range(5, 35, 2), version=3), options)
    table.check()
    table.write_with_hudi("delete", typed_rows(range(0, 30, 3), version=3), options)
    table.write("delete", typed_rows(range(1, 30, 6), version=3), options)
    table.check()
    table.write_with_hudi("upsert", typed_rows(range(0, 40, 4), version=4), options)
    table.write("upsert", typed_rows(range(0, 40, 6), version=5, shift=moved), options)
    table.check()


@pytest.mark.parametrize("version", [6, 8, 9])
def test_we_continue_a_table_that_hudi_created(
    version: int, tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    layout = InteropLayout("hudis", index="BUCKET", properties=FOUR_BUCKETS, version=version)
    table = InteropTable(layout, tmp_path, spark, hudi_peer)
    table.write_with_hudi("insert", typed_rows(range(20), version=1))
    table.write("upsert", typed_rows(range(10, 30), version=2), table.layout.table_properties())
    table.check()
    table.write_with_hudi("upsert", typed_rows(range(5, 40, 5), version=3))
    table.check()
