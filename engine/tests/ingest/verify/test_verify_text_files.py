"""A table compared with csv and JSON files, and with rows that were set aside, as Spark reads
them."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.verify.verification import Kind, Verification
from tideline.lake_table import LakeTable
from tideline.testing.landing_feed import LandingFeed
from tideline.testing.planted_differences import named, verified_together
from tideline.testing.stream_feed import columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def on_spark(feed: LandingFeed, spark: SparkSession) -> LandingFeed:
    return replace(feed, session_factory=lambda _: spark)


def verified(*feeds: LandingFeed) -> Verification:
    operations = (feed.declared for feed in feeds)
    return verified_together(*operations, session_factory=feeds[0].session_factory)


def table_of(feed: LandingFeed) -> LakeTable:
    table = feed.table()
    assert table is not None
    return table


@pytest.mark.parametrize("file_format", [FileFormat.CSV, FileFormat.JSON])
def test_text_files_are_compared_in_the_types_of_the_table(
    file_format: FileFormat, spark: SparkSession, tmp_path: Path
) -> None:
    schema = columns(id="long", at="timestamp", day="date", price="decimal(10,2)", v="string")
    feed = LandingFeed.of(tmp_path, declared={"file_format": file_format})
    feed = on_spark(replace(feed, schema=schema, landed=schema), spark)
    moment, day = "2026-11-28T10:00:00.123456Z", "2026-11-28"
    feed.land(1, [(n, moment, day, "1.50", f"v, {n}") for n in range(20)])
    feed.land(2, [(n, moment, day, "2.50", "line\nbreak") for n in range(15, 30)])
    feed.land(3, [(n, moment, day, "3.50", None) for n in range(29, 31)])
    feed.drain()
    clean = verified(feed)
    assert clean.found.is_equal, clean.found.first
    assert (clean.found.equal, clean.records, clean.bad, clean.gone) == (31, 37, 0, ())

    table = table_of(feed)
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    table.upsert([{**rows[3], "v": "changed"}, {**rows[16], "price": Decimal("2.51")}])
    table.append([{**rows[5], "id": 99}, rows[6]])
    table.delete("id = 7")
    assert named(verified(feed)) == {
        (Kind.DIFFERENT, "3"),
        (Kind.DIFFERENT, "16"),
        (Kind.EXTRA, "99"),
        (Kind.EXTRA, "6"),
        (Kind.MISSING, "7"),
    }


def test_rows_that_were_set_aside_are_counted_and_not_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = LandingFeed.of(tmp_path, declared={"file_format": FileFormat.CSV}, bad_rows_max=5)
    feed = on_spark(feed, spark)
    feed.land(1, [(1, 1, "a"), ("two", 1, "b"), (3, 1, "c")])
    feed.land(2, [(4, 1, "d"), (None, 1, "e")])
    feed.land(3, [("x", 1, "f")] * 6)
    feed.land(4, [(5, 1, "g")])
    feed.drain()
    assert len(list((feed.landing / "_quarantine").glob("*.rows.jsonl"))) == 2
    clean = verified(feed)
    # The third file is in the quarantine whole, and was never taken in.
    assert (clean.found.is_equal, clean.found.equal) == (True, 4)
    assert (clean.records, clean.bad, clean.gone) == (6, 2, ())
    table_of(feed).delete("id = 3")
    assert named(verified(feed)) == {(Kind.MISSING, "3")}


def test_parquet_rows_without_a_key_are_counted_as_bad(spark: SparkSession, tmp_path: Path) -> None:
    feed = on_spark(LandingFeed.of(tmp_path, bad_rows_max=5), spark)
    feed.land(1, [(1, 1, "a"), (None, 1, "b")])
    feed.land(2, [(2, 1, "c")])
    feed.drain()
    clean = verified(feed)
    assert (clean.found.is_equal, clean.found.equal, clean.bad, clean.records) == (True, 2, 1, 3)


def test_a_file_that_cannot_be_read_any_more_leaves_its_rows_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = on_spark(LandingFeed.of(tmp_path, files_max=1), spark)
    feed.land(1, [(1, 1, "a"), (2, 1, "a")])
    second = feed.land(2, [(2, 2, "b"), (3, 2, "b")])
    feed.land(4, [(4, 4, "d")])
    feed.drain()
    before = second.stat()
    second.write_bytes(b"\0" * before.st_size)
    os.utime(second, ns=(before.st_atime_ns, before.st_mtime_ns))
    torn = verified(feed)
    assert [text.partition(":")[0] for text in torn.gone] == ["0002.parquet"]
    assert torn.found.is_equal
    assert (torn.found.equal, torn.found.unknown) == (2, 2)


def test_keys_to_delete_may_be_in_text_files(spark: SparkSession, tmp_path: Path) -> None:
    declared = {"file_format": FileFormat.CSV}
    orders = on_spark(LandingFeed.of(tmp_path, name="orders", declared=dict(declared)), spark)
    gone = LandingFeed.of(tmp_path, name="gone", operation="delete", declared=dict(declared))
    gone = on_spark(replace(gone, landed=columns(id="long")), spark)
    orders.land(1, [(n, 1, "a") for n in range(6)])
    orders.drain()
    gone.land(1, [(1,), (2,)])
    gone.drain()
    orders.land(2, [(2, 2, "again")])
    orders.drain()
    clean = verified(orders, gone)
    assert (clean.found.is_equal, clean.found.equal, clean.records) == (True, 5, 9)
    table_of(orders).append([{"id": 1, "ts": 1, "v": "a"}])
    assert named(verified(orders, gone)) == {(Kind.EXTRA, "1")}
