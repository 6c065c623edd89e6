"""What a write leaves on the timeline, and two writes at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConflictError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.lake_table import LakeTable
from tideline.spark.write.engine import SparkWriteEngine
from tideline.spark.write.run import open_engine
from tideline.testing.plain_reader import (
    completed_commits,
    leftovers,
    live_files,
    metadata_of,
    newest_commit,
    objects,
    stored_rows,
)
from tideline.testing.write_batch import write_batch
from tideline.testing.written_table import WrittenTable

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    """`a` and `b` in partition north, `c` in south."""
    made = WrittenTable.create(
        spark, tmp_path / "t", SCHEMA, partition_by=["region"], ordering=["ts"]
    )
    made.write(
        [("a", "north", 1, "1"), ("b", "north", 1, "1"), ("c", "south", 1, "1")],
        "insert",
        extra_metadata={"tideline.checkpoint.files": "f1", "note": "first"},
    )
    return made


@dataclass(slots=True)
class InterruptedEngine:
    """A Spark engine during whose write something else happens, once its files are there."""

    engine: SparkWriteEngine
    happens: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def write(self, *arguments: Any, **settings: Any) -> Any:
        stats = self.engine.write(*arguments, **settings)
        self.happens()
        return stats


def write_while(
    table: WrittenTable,
    rows: list[tuple[Any, ...]],
    happens: Callable[[], None],
    operation: str = "upsert",
) -> None:
    lake, wanted = table.lake, WriteOperation.parse(operation)
    config = lake.writer.config_for_rows(None)
    engine = open_engine(table.frame(rows), lake.hoodie_table, wanted, config)
    try:
        write_batch(lake, InterruptedEngine(engine, happens), wanted)
    finally:
        engine.release()


def fields(table: LakeTable) -> list[str]:
    schema = table.hoodie_table.schemas.newest(table.timeline())
    return [] if schema is None else list(schema.names)


@pytest.mark.slow
def test_commit_metadata_says_what_was_done_to_each_file(table: WrittenTable) -> None:
    old = {stat["partitionPath"]: stat for stat in table.stats()}
    first = next(iter(completed_commits(table.folder)))
    report = table.write(
        [("a", "north", 2, "2"), ("n", "north", 2, "2"), ("w", "west", 2, "2")],
        extra_metadata={"note": "second"},
    )
    metadata = newest_commit(table.folder)
    assert (metadata["operationType"], metadata["compacted"]) == ("UPSERT", False)
    extra = metadata["extraMetadata"]
    # Checkpoints are carried on; what else a caller said belongs to its own commit.
    assert extra.pop("tideline.checkpoint.files") == "f1"
    assert extra.pop("note") == "second"
    schema = json.loads(extra.pop("schema"))
    assert [field["name"] for field in schema["fields"]] == SCHEMA.names
    assert extra == {}
    stats = {stat["partitionPath"]: stat for stat in table.stats()}
    assert stats.keys() == {"north", "west"}
    for stat in stats.values():
        size = (table.folder / stat["path"]).stat().st_size
        assert stat["totalWriteBytes"] == stat["fileSizeInBytes"] == size
        assert stat["totalWriteErrors"] == 0 and stat["tempPath"] is None
        assert stat["path"].endswith(f"_{report.instant}.parquet")
        assert stat["path"].split("/")[1].startswith(stat["fileId"])
    counts = ("numWrites", "numUpdateWrites", "numInserts", "numDeletes", "prevCommit", "fileId")
    assert [stats["north"][name] for name in counts] == [
        3, 1, 1, 0, first, old["north"]["fileId"],
    ]  # fmt: skip
    assert [stats["west"][name] for name in counts[:5]] == [1, 0, 1, 0, "null"]
    table.write([("b", "north", 1, ""), ("c", "south", 1, "")], "delete")
    extra = newest_commit(table.folder)["extraMetadata"]
    assert extra["tideline.checkpoint.files"] == "f1" and "note" not in extra
    assert {stat["numDeletes"] for stat in table.stats()} == {1}
    table.lake.delete_partitions(["west"], extra_metadata={"tideline.checkpoint.files": "f2"})
    extra = newest_commit(table.folder)["extraMetadata"]
    assert extra["tideline.checkpoint.files"] == "f2" and "schema" in extra


@pytest.mark.slow
def test_the_inflight_instant_holds_the_workload_profile(table: WrittenTable) -> None:
    seen: dict[str, Any] = {}
    (north, _) = live_files(table.folder)
    (first,) = completed_commits(table.folder)

    def look() -> None:
        area = table.folder / ".hoodie"
        inflight = max((area / "timeline").glob("*.inflight"))
        seen["profile"] = metadata_of(inflight)
        seen["requested"] = inflight.with_name(f"{inflight.stem}.commit.requested").read_bytes()
        markers = (area / ".temp" / inflight.stem).rglob("*.marker.*")
        seen["markers"] = sorted(path.suffix for path in markers)
        seen["heartbeat"] = (area / ".heartbeat" / inflight.stem).exists()
        assert len(table.rows()) == 3

    rows = [("a", "north", 2, ""), ("b", "north", 2, ""), ("n", "north", 2, ""), ("w", "w", 2, "")]
    write_while(table, rows, look)
    profile: Mapping[str, Any] = seen["profile"]
    assert profile["operationType"] == "UPSERT" and profile["extraMetadata"] == {}
    counts = {
        partition: [
            (stat["fileId"], stat["prevCommit"], stat["numInserts"], stat["numUpdateWrites"])
            for stat in stats
        ]
        for partition, stats in profile["partitionToWriteStats"].items()
    }
    assert counts == {
        "north": [("", "null", 1, 0), (north.name.split("_")[0], first, 0, 2)],
        "w": [("", "null", 1, 0)],
    }
    assert seen["requested"] == b"" and seen["heartbeat"]
    assert seen["markers"] == [".CREATE", ".MERGE"]
    assert leftovers(table.folder) == [] and len(table.rows()) == 5


def test_of_two_writes_to_one_file_group_the_later_to_commit_conflicts(
    table: WrittenTable,
) -> None:
    seen: list[dict[str, str]] = []

    def other_write() -> None:
        table.lake.write(table.frame([("b", "north", 9, "other")]), "upsert")
        seen.append({p: d for p, d in objects(table.folder).items() if p.endswith(".parquet")})

    with pytest.raises(ConflictError, match="a concurrent write conflicts") as caught:
        write_while(table, [("a", "north", 9, "mine"), ("c", "south", 9, "mine")], other_write)
    assert caught.value.exit_code == 3 and str(caught.value.instant) in str(caught.value)
    assert table.rows("id", "v") == [("a", "1"), ("b", "other"), ("c", "1")]
    assert leftovers(table.folder) == []
    gone = str(caught.value.instant)
    assert not [path for path in objects(table.folder) if gone in path and ".rollback" not in path]
    table.write([("a", "north", 9, "again")])
    assert table.rows("id", "v")[0] == ("a", "again")


@pytest.mark.slow
def test_writes_to_different_file_groups_do_not_conflict(table: WrittenTable) -> None:
    wide = SCHEMA.append(pa.field("added", pa.int64()))
    evolved = WrittenTable(table.spark, table.folder, wide)

    def other_write() -> None:
        table.lake.write(evolved.frame([("c", "south", 9, "other", 7)]), "upsert")

    write_while(table, [("a", "north", 9, "mine")], other_write)
    found = {row["id"]: (row["v"], row.get("added")) for row in stored_rows(table.folder)}
    assert found == {"a": ("mine", None), "b": ("1", None), "c": ("other", 7)}
    # Neither commit made the table forget the other's column.
    assert fields(table.lake) == wide.names
    evolved.write([("b", "north", 9, "then", 8)])
    snapshot = table.lake.snapshot(table.spark).select("id", "added").collect()
    assert sorted(map(tuple, snapshot), key=str) == [("a", None), ("b", 8), ("c", 7)]


@pytest.mark.slow
def test_conflicts_are_retried_as_often_as_asked(
    table: WrittenTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt meets a writer in this process, the second sees its rows."""
    attempts: list[int] = []
    write = SparkWriteEngine.write

    def meeting_another(engine: SparkWriteEngine, *arguments: Any, **settings: Any) -> Any:
        stats = write(engine, *arguments, **settings)
        attempts.append(len(attempts))
        if len(attempts) == 1:
            table.lake.write(table.frame([("a", "north", 5, "other")]), "upsert")
        return stats

    monkeypatch.setattr(SparkWriteEngine, "write", meeting_another)
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    table.write([("a", "north", 4, "late"), ("b", "north", 9, "mine")], options=retries)
    assert len(attempts) == 2
    assert table.rows("id", "v") == [("a", "other"), ("b", "mine"), ("c", "1")]
