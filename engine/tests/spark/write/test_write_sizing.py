"""How inserts are spread over files: the hash that chooses, small files, several new ones."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.hudi.index.bucket import bucket_id_of_record_key
from tideline.hudi.placement.upsert_partitioner import (
    Sizing,
    SmallFile,
    bucket_of,
    plan_buckets,
)
from tideline.hudi.placement.workload_profile import PartitionWorkload, WorkloadProfile
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.spark.write.bucket_hash import with_bucket_id
from tideline.spark.write.engine import insert_bucket_column
from tideline.testing.plain_reader import live_files, stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("v", pa.string())])
ALPHABET = [
    "a",
    "b",
    ",",
    ":",
    "1",
    "é",
    "😀",
    "\ue000",
    "f1:",
    ",f2:",
    "\n",
    "__null__",
    "__empty__",
]


def random_keys(count: int, seed: int) -> list[str]:
    pick = random.Random(seed)
    return ["".join(pick.choices(ALPHABET, k=pick.randint(1, 8))) for _ in range(count)]


def test_inserts_choose_the_bucket_that_the_reference_chooses(spark: SparkSession) -> None:
    keys = [*random_keys(500, seed=1), "1", "k" * 300, "\x00"]
    instant = InstantTime("20250101000000000")
    workloads = {"a": 503, "b": 1, "c": 7}
    plan = plan_buckets(
        WorkloadProfile({name: PartitionWorkload(count) for name, count in workloads.items()}),
        {"a": [SmallFile("f", instant, 90)], "c": [SmallFile("g", instant, 10)]},
        Sizing(small_file_limit_bytes=100, file_size_bytes_max=200),
        lambda: "p",
        average_record_bytes=2,
    )
    routes = [
        (
            partition,
            plan.total_inserts[partition],
            [share for share, _ in weights],
            [number for _, number in weights],
        )
        for partition, weights in plan.insert_weights.items()
    ]
    table = spark.createDataFrame(
        routes, "p string, _total bigint, _shares array<double>, _numbers array<int>"
    )
    frame = spark.createDataFrame(pa.table({"_hoodie_record_key": keys})).crossJoin(table)
    for row in frame.withColumn("bucket", insert_bucket_column()).collect():
        assert row["bucket"] == bucket_of(plan, row["p"], row["_hoodie_record_key"])


def test_buckets_of_keys_are_those_of_the_reference(spark: SparkSession) -> None:
    """The reference agrees with Hudi's own BucketIdentifier, wherever that one terminates."""
    keys = [*random_keys(700, seed=2), *[f"f1:{a},f2:{b}" for a, b in
            zip(random_keys(700, seed=3), random_keys(700, seed=4), strict=True)]]  # fmt: skip
    # What Hudi 1.2 says: BucketIdentifier.getBucketId(key, [f1, f2], 256).
    hudi = {
        "f1:x,y:z,f2:b": 171,
        "f1:a,f2:b": 226,
        "f1:a,b,f2:c": 45,
        "f1:a:b,f2:c": 187,
        "f1:__null__,f2:__empty__": 193,
        "f1:x,f1:z,f2:b": 255,
        "a:b,c": 31,
        "2024-01-01 10:00:00": 158,
        "𝒳😀": 32,
    }
    keys += list(hudi)
    frame = spark.createDataFrame(pa.table({"_hoodie_record_key": keys}))
    for fields in (("f1", "f2"), ("f2",)):
        frame = with_bucket_id(frame, fields[0], fields, F.lit(256))
    rows = frame.collect()
    assert [row["f1"] for row in rows[-len(hudi) :]] == list(hudi.values())
    for row in rows:
        assert row["f1"] == bucket_id_of_record_key(row[0], ["f1", "f2"], 256)
        assert row["f2"] == bucket_id_of_record_key(row[0], ["f2"], 256)


@pytest.mark.slow_with("spark")
def test_inserts_fill_small_files_and_then_make_new_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA,
        partition_by=["region"],
        properties={"hoodie.copyonwrite.record.size.estimate": "1000"},
    )
    table.write([(n, "north", "1") for n in range(10)], "insert")
    (first,) = live_files(table.folder)
    size = first.stat().st_size
    # Room for ten rows more in the file, and for fifteen in each further one.
    packed = {
        "hoodie.parquet.max.file.size": str(size + 10_500),
        "hoodie.copyonwrite.insert.auto.split": "false",
        "hoodie.copyonwrite.insert.split.size": "15",
    }
    table.write([(n, "north", "2") for n in range(5, 45)] + [(0, "south", "2")], "upsert", packed)
    by_file: dict[str, list[int]] = {}
    for row in stored_rows(table.folder):
        by_file.setdefault(row["_hoodie_file_name"].split("_")[0], []).append(row["id"])
    grown = by_file.pop(first.name.split("_")[0])
    assert set(grown) >= set(range(10)) and 10 < len(grown) < 30
    assert sorted(map(len, by_file.values()))[0] == 1 and len(by_file) == 3
    assert sorted(id for ids in [grown, *by_file.values()] for id in ids) == [0, *range(45)]
    planned = {(s["fileId"], s["numInserts"], s["numUpdateWrites"]) for s in table.stats()}
    assert (first.name.split("_")[0], len(grown) - 10, 5) in planned
    # Off: nothing is small, every insert makes a file of its own.
    table.write([(99, "north", "3")], "insert", {"hoodie.parquet.small.file.limit": "0"})
    assert len([path for path in live_files(table.folder) if path.parent.name == "north"]) == 4


def test_files_roll_at_the_maximum_size(spark: SparkSession, tmp_path: Path) -> None:
    table = WrittenTable.create(
        spark,
        tmp_path / "t",
        SCHEMA,
        properties={"hoodie.parquet.max.file.size": "60000",
                    "hoodie.parquet.compression.codec": "uncompressed",
                    "hoodie.copyonwrite.insert.auto.split": "false"},
    )  # fmt: skip
    frame = spark.range(4000).select(
        "id", F.lit("r").alias("region"), F.sha2(F.col("id").cast("string"), 256).alias("v")
    )
    table.write(frame, "insert")
    files = live_files(table.folder)
    assert len(files) > 3
    assert len({path.name[:36] for path in files}) == 1
    suffixes = sorted(int(path.name.split("_")[0][37:]) for path in files)
    assert suffixes == list(range(len(files)))
    assert max(path.stat().st_size for path in files) < 2 * 60_000
    assert sorted(row["id"] for row in stored_rows(table.folder)) == list(range(4000))
    assert sum(stat["numInserts"] for stat in table.stats()) == 4000
