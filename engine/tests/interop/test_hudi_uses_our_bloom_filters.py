"""Hudi's bloom index finds rows through the filters and key ranges in our parquet footers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_table import METADATA_TABLE_OFF, InteropLayout, InteropTable

pytestmark = [pytest.mark.interop, pytest.mark.spark]

LAYOUT = InteropLayout("bloom", index="BLOOM")
LETTERS = ("a", "Z", "é", "日", "𝄞", "~")


def awkward_keys(count: int) -> list[str]:
    """Keys of one to many bytes, inside and outside ASCII and the first Unicode plane."""
    return [
        LETTERS[number % 6] + str(number)[: number % 5] * (number % 4) for number in range(count)
    ]


def rows_of(keys: list[str], ts: int) -> pa.Table:
    regions = [("north", "south")[len(key) % 2] for key in keys]
    return pa.table({"id": keys, "region": regions, "ts": pa.array([ts] * len(keys), pa.int64())})


@pytest.mark.slow
def test_every_key_is_found_regardless_of_its_bytes(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    keys = sorted(set(awkward_keys(3_000)) | {f"k{number}" for number in range(2_000)})
    table = InteropTable(LAYOUT, tmp_path, spark, hudi_peer)
    table.create(rows_of(["a"], 1).schema)
    table.write("insert", rows_of(keys[::2], 1))
    table.write("upsert", rows_of(keys[::3], 2))
    table.write_with_hudi("delete", rows_of(keys[::5], 3), METADATA_TABLE_OFF)
    table.write_with_hudi("upsert", rows_of(keys[::7], 4), METADATA_TABLE_OFF)
    table.check()


def test_we_find_every_key_through_hudis_filters(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    keys = sorted(set(awkward_keys(3_000)))
    table = InteropTable(LAYOUT, tmp_path, spark, hudi_peer)
    table.write_with_hudi("insert", rows_of(keys, 1), METADATA_TABLE_OFF)
    table.write("delete", rows_of(keys[::2], 2), {"hoodie.index.type": "BLOOM"})
    table.check()


@pytest.mark.slow
def test_a_file_that_lost_all_its_rows_still_has_a_filter(
    tmp_path: Path, spark: SparkSession, hudi_peer: HudiPeer
) -> None:
    table = InteropTable(LAYOUT, tmp_path, spark, hudi_peer)
    table.create(rows_of(["a"], 1).schema)
    table.write("insert", rows_of(["a", "b", "c"], 1))
    table.write("delete", rows_of(["a", "b", "c"], 2))
    table.check()
    table.write_with_hudi("upsert", rows_of(["b", "dd"], 3), METADATA_TABLE_OFF)
    table.check()
