"""Where rows of a known key go: every index, moves between partitions, buckets."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.check.record_index import wrong_places
from tideline.hudi.index.bucket import bucket_id_of_record_key
from tideline.hudi.open_table import open_table
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.plain_reader import live_files, stored_rows
from tideline.testing.written_table import WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)
Create = Callable[..., WrittenTable]


@pytest.fixture
def create(spark: SparkSession, tmp_path: Path) -> Create:
    def made(index: str, **settings: Any) -> WrittenTable:
        properties = {"hoodie.index.type": index, **settings.pop("properties", {})}
        settings = {"partition_by": ["region"], "ordering": ["ts"], **settings}
        return WrittenTable.create(spark, tmp_path / "t", SCHEMA, properties=properties, **settings)

    return made


def rows(keys: str, region: str, ts: int, v: str) -> list[tuple[Any, ...]]:
    return [(key, region, ts, v) for key in keys]


@pytest.mark.slow_with("spark-SIMPLE", "spark-BLOOM")
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_keys_belong_to_their_partition(index: str, create: Create) -> None:
    table = create(index)
    table.write(rows("abc", "north", 1, "1") + rows("c", "south", 1, "1"), "bulk_insert")
    table.write(rows("xyz", "north", 1, "1"), "bulk_insert")
    report = table.write(rows("bx", "north", 2, "2") + rows("ad", "south", 2, "2"))
    assert (report.rows_updated, report.rows_inserted, report.files_written) == (2, 2, 3)
    assert table.rows("region", "id", "v") == [
        ("north", "a", "1"),
        ("north", "b", "2"),
        ("north", "c", "1"),
        ("north", "x", "2"),
        ("north", "y", "1"),
        ("north", "z", "1"),
        ("south", "a", "2"),
        ("south", "c", "1"),
        ("south", "d", "2"),
    ]
    files = live_files(table.folder)
    table.write(rows("mn", "north", 2, "2"), "delete")
    assert live_files(table.folder) == files
    table.write(rows("zc", "north", 2, "2"), "delete")
    assert [row[1] for row in table.rows("region", "id") if row[0] == "north"] == list("abxy")


@pytest.mark.slow_with("spark-GLOBAL_BLOOM", "spark-GLOBAL_SIMPLE")
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_a_row_moves_to_the_partition_it_comes_with(index: str, create: Create) -> None:
    table = create(index)
    table.write(rows("abcd", "north", 5, "1") + rows("e", "south", 5, "1"), "bulk_insert")
    report = table.write(
        [
            ("a", "south", 6, "moved"),
            ("b", "south", 4, "lost"),
            ("c", "west", 5, "moved"),
            ("d", "north", 6, "stays"),
            ("n", "south", 1, "new"),
            ("n", "west", 2, "new, later"),
        ]
    )
    assert table.rows("id", "region", "v") == [
        ("a", "south", "moved"),
        ("b", "north", "1"),
        ("c", "west", "moved"),
        ("d", "north", "stays"),
        ("e", "south", "1"),
        ("n", "west", "new, later"),
    ]
    assert (report.rows_deleted, report.rows_inserted, report.rows_updated) == (2, 3, 1)
    table.write([("a", "west", 0, ""), ("e", "south", 0, ""), ("q", "south", 0, "")], "delete")
    assert [row[0] for row in table.rows("id")] == ["b", "c", "d", "n"]


@pytest.mark.parametrize("keys_max", [10_000, 0])
@pytest.mark.slow_with("spark-0", "parts-0")
def test_keys_are_looked_up_in_a_record_index(
    create: Create, monkeypatch: pytest.MonkeyPatch, keys_max: int
) -> None:
    """Or in all files, where they are many."""
    monkeypatch.setattr("tideline.hudi.write.known_places.KEYS_MAX", keys_max)
    moves = {"hoodie.record.index.update.partition.path": "true"}
    table = create("RECORD_INDEX", properties=moves)
    table.write(rows("abcd", "north", 5, "1") + rows("e", "south", 5, "1"), "bulk_insert")
    LakeTable.open(str(table.folder)).indexes().create("record_index")
    report = table.write(
        [("a", "south", 6, "moved"), ("b", "south", 4, "lost"), ("n", "west", 2, "new")]
    )
    assert (report.rows_deleted, report.rows_inserted, report.rows_updated) == (1, 2, 0)
    table.write([("e", "south", 0, ""), ("q", "south", 0, "")], "delete")
    assert table.rows("id", "region", "v") == [
        ("a", "south", "moved"),
        ("b", "north", "1"),
        ("c", "north", "1"),
        ("d", "north", "1"),
        ("n", "west", "new"),
    ]
    stored = open_table(StoreLocation.of(table.folder))
    assert "record_index" in stored.config.metadata_partitions
    timeline = stored.timeline()
    assert list(wrong_places(stored, stored.files.view(timeline), timeline)) == []


@pytest.mark.slow_with("spark")
def test_a_row_stays_where_it_is_when_moving_is_off(create: Create) -> None:
    option = "hoodie.bloom.index.update.partition.path"
    table = create("GLOBAL_BLOOM", properties={option: "false"})
    # Doubled by inserts: what is not new must not make a new key look like one of them.
    for version in ("1", "2"):
        table.write(rows("abc", "north", 5, version), "bulk_insert")
    table.write([("a", "south", 6, "new"), ("b", "south", 4, "lost"), ("n", "south", 6, "new")])
    # As with Hudi the column says what came in, the partition where the row is.
    assert table.rows("id", "_hoodie_partition_path", "region", "v") == [
        ("a", "north", "south", "new"),
        ("a", "north", "south", "new"),
        ("b", "north", "north", "1"),
        ("b", "north", "north", "2"),
        ("c", "north", "north", "1"),
        ("c", "north", "north", "2"),
        ("n", "south", "south", "new"),
    ]
    table.write(rows("ab", "elsewhere", 0, ""), "delete")
    assert [row[0] for row in table.rows("id")] == ["c", "c", "n"]


@pytest.mark.slow_with("spark")
def test_a_record_index_has_one_place_for_a_key(create: Create) -> None:
    """Rows of a key in two partitions may be different things; none of them is overwritten."""
    table = create("RECORD_INDEX")
    table.write(rows("ab", "north", 1, "1") + rows("b", "south", 1, "1"), "bulk_insert")
    report = table.write(rows("an", "south", 2, "2"))
    assert (report.rows_updated, report.rows_inserted, report.keys_unique_in) == (1, 1, "table")
    doubled = r"'b' is stored in 2 partitions \('north', 'south'\).*tideline check --keys"
    with pytest.raises(CorruptTableError, match=doubled):
        table.write(rows("abc", "south", 3, "3"))
    found = table.rows("id", "_hoodie_partition_path", "v")
    assert found == [
        ("a", "north", "2"), ("b", "north", "1"), ("b", "south", "1"), ("n", "south", "2"),
    ]  # fmt: skip
    finds_all = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    table.write(rows("b", "east", 0, ""), "delete", options=finds_all)
    table.write(rows("ac", "south", 3, "3"))
    assert [row[0] for row in table.rows("id")] == ["a", "c", "n"]


def bucket_of_file(path: Path) -> int:
    return int(path.name[:8])


@pytest.mark.slow_with("spark")
def test_the_bucket_of_a_key_is_its_file_group(create: Create) -> None:
    keys = ["1", "2", "a:b,c", "id:5,x:7", "é😀", "\ue000𝒳", "x y", "10:00, 11:00"]
    table = create("BUCKET", properties={"hoodie.bucket.index.num.buckets": "3"})
    table.write([(key, "north", 1, "1") for key in keys[:5]], "insert")
    ids = {bucket_of_file(path): path.name.split("_")[0] for path in live_files(table.folder)}
    for operation in ("upsert", "bulk_insert"):
        table.write([(key, "north", 2, operation) for key in keys] + rows("1", "south", 1, "1"),
                    operation)  # fmt: skip
    for row in stored_rows(table.folder):
        bucket = bucket_id_of_record_key(row["id"], ["id"], 3)
        assert int(row["_hoodie_file_name"][:8]) == bucket
        assert row["v"] == ("bulk_insert" if row["region"] == "north" else "1")
    north = [path for path in live_files(table.folder) if path.parent.name == "north"]
    assert {bucket_of_file(path): path.name.split("_")[0] for path in north} | ids == {
        bucket_of_file(path): path.name.split("_")[0] for path in north
    }
    assert len(table.rows()) == len(keys) + 1
    before = {path.name.split("_")[0] for path in north}
    table.write([(key, "north", 9, "o") for key in keys], "insert_overwrite")
    after = [path for path in live_files(table.folder) if path.parent.name == "north"]
    assert {bucket_of_file(path) for path in after} == {bucket_of_file(path) for path in north}
    assert before.isdisjoint({path.name.split("_")[0] for path in after})
    table.write([("1", "north", 0, ""), ("unknown", "north", 0, ""), ("2", "new", 0, "")], "delete")
    assert "1" not in {row[0] for row in table.rows("id", "region") if row[1] == "north"}
    assert not (table.folder / "new").exists()
    with pytest.raises(ConfigError, match="its type, bucket count and hash fields are fixed"):
        table.write(rows("a", "north", 1, "1"), options={"hoodie.index.type": "SIMPLE"})


@pytest.mark.slow_with("spark")
def test_buckets_may_hash_some_of_several_key_fields(create: Create) -> None:
    table = create(
        "BUCKET",
        record_key=["id", "ts"],
        ordering=[],
        partition_by=[],
        properties={
            "hoodie.bucket.index.num.buckets": "16",
            "hoodie.bucket.index.hash.field": "ts",
            # Buckets never roll, however small files are to be.
            "hoodie.parquet.max.file.size": "1000",
        },
    )
    for operation in ("insert_overwrite", "upsert"):
        table.write([(f"{n},x:{n}", "r", n % 4, operation) for n in range(40)], operation)
    found = stored_rows(table.folder)
    assert len(found) == 40 and {row["v"] for row in found} == {"upsert"}
    for row in found:
        bucket = bucket_id_of_record_key(row["_hoodie_record_key"], ["ts"], 16)
        assert int(row["_hoodie_file_name"][:8]) == bucket
    assert len(live_files(table.folder)) == len({row["_hoodie_file_name"] for row in found}) <= 4


TINY_FILES = {
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": "13",
    "hoodie.copyonwrite.record.size.estimate": "300",
    "hoodie.parquet.small.file.limit": "7000",
    "hoodie.parquet.max.file.size": "9000",
    "hoodie.bucket.index.num.buckets": "5",
}


@pytest.mark.slow_with("spark-GLOBAL_BLOOM", "spark-BUCKET")
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_BLOOM", "BUCKET"])
def test_a_random_history_over_many_files_reads_as_a_dictionary(index: str, create: Create) -> None:
    table = create(index, properties=TINY_FILES)
    pick = random.Random(index)
    keys = [f"k{number}" for number in range(100)] + [f"é😀{number}" for number in range(20)]
    model: dict[Any, tuple[Any, ...]] = {}

    def identity(row: tuple[Any, ...]) -> Any:
        return row[0] if index.startswith("GLOBAL_") else row[:2]

    for turn, operation in enumerate(["upsert", "upsert", "delete", "upsert"]):
        batch = [
            (pick.choice(keys), f"r{pick.randint(0, 2)}", pick.randint(0, 9), f"{turn}-{number}")
            for number in range(80)
        ]
        table.write(batch, operation)
        for row in sorted(batch, key=lambda row: row[2]):
            if operation == "delete":
                model.pop(identity(row), None)
            elif model.get(identity(row), row)[2] <= row[2]:
                model[identity(row)] = row
        assert table.rows() == sorted(model.values(), key=lambda row: tuple(map(str, row)))
    assert len(live_files(table.folder)) > 4
    assert all(row["_hoodie_partition_path"] == row["region"] for row in stored_rows(table.folder))
