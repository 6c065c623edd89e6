"""`readStream.format("tideline")`: nothing is lost or repeated, whenever it is stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tideline.formats.row_changes import CHANGE_INSTANT, CHANGE_TYPE
from tideline.hudi.read.point_in_time import BEGINNING
from tideline.hudi.table.table_config import TableType
from tideline.spark.read.data_source import register
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import ONCE, QUIET, SmallTable, batch

pytestmark = pytest.mark.spark

SOON = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "2",
}
KINDS = {
    "v6-cow": (6, TableType.COPY_ON_WRITE),
    "v9-mor": (9, TableType.MERGE_ON_READ),
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallTable]:
    version, kind = KINDS[request.param]
    location = StoreLocation.of(tmp_path / "table")
    yield SmallTable.create(location, ordering=["v"], table_type=kind, table_version=version)


@dataclass
class Stream:
    """One stream of a table, which runs over all that is there and ends."""

    spark: SparkSession
    table: SmallTable
    options: dict[str, str]
    checkpoint: str = "checkpoint"
    trigger: dict[str, Any] = field(default_factory=lambda: {"availableNow": True})
    batches: list[tuple[int, list[Row]]] = field(default_factory=list)

    def run(self, fails: bool = False, after: int = 1) -> list[Row]:
        """What came; `fails` when so many batches are there, before Spark notes the last of them as
        done."""
        begin = len(self.batches)

        def take(frame: DataFrame, number: int) -> None:
            self.batches.append((number, frame.collect()))
            if fails and len(self.batches) == begin + after:
                raise RuntimeError("killed")

        register(self.spark)
        uri = self.table.location.uri
        frame = self.spark.readStream.format("tideline").options(**self.options).load(uri)
        writer = frame.writeStream.foreachBatch(take).trigger(**self.trigger)
        query = writer.option("checkpointLocation", f"{uri}-{self.checkpoint}").start()
        query.awaitTermination()
        return [row for _, rows in self.batches[begin:] for row in rows]


def applied(rows: dict[str, int], changes: list[Row]) -> dict[str, int]:
    """Rows after changes; each must fit what was there."""
    rows = dict(rows)
    for change in sorted(changes, key=lambda row: str(row[CHANGE_INSTANT])):
        kind, key, v = change[CHANGE_TYPE], change["id"], change["v"]
        if kind == "INSERT":
            assert key not in rows, key
        elif kind != "UPDATE_AFTER":
            assert rows[key] == v, (kind, key, v)
        if kind == "DELETE":
            del rows[key]
        else:
            rows[key] = v
    return rows


def values(rows: list[Row]) -> dict[str, int]:
    return {row["id"]: row["v"] for row in rows}


def commits_of(rows: list[Row]) -> set[str]:
    return {row[CHANGE_INSTANT] for row in rows}


def do(table: SmallTable, operation: str, numbers: Any, v: int) -> str:
    return str(table.write(operation, batch(numbers, v), options=QUIET).instant)


def test_a_replica_equals_the_table_across_deaths_and_restarts(
    spark: SparkSession, table: SmallTable
) -> None:
    stream = Stream(spark, table, {"changes": "true"})
    do(table, "insert", range(6), 1)
    replica = applied({}, stream.run())
    assert replica == dict(table.values())

    do(table, "upsert", [0, 1, 7], 2)
    do(table, "delete", [2, 3], 3)
    with pytest.raises(Exception, match="killed"):
        stream.run(fails=True)
    number, seen = stream.batches[-1]
    for service in ("compaction", "clustering"):
        table.lake().run(service, options=ONCE)
    do(table, "upsert", [2, 7], 4)
    again = len(stream.batches)
    replica = applied(replica, stream.run())
    assert replica == dict(table.values())
    repeated, rows = stream.batches[again]
    assert repeated == number
    assert sorted(rows) == sorted(seen)
    assert stream.run() == []


@pytest.mark.parametrize(
    ("limit", "commits_max"),
    [
        ({"maxCommitsPerTrigger": "2"}, 2),
        ({"maxBytesPerTrigger": "1", "maxCommitsPerTrigger": "9"}, 1),
    ],
    ids=["commits", "bytes"],
)
def test_limited_batches_have_each_commit_once_across_deaths(
    spark: SparkSession, table: SmallTable, limit: dict[str, str], commits_max: int
) -> None:
    stream = Stream(spark, table, {"changes": "true"} | limit)
    written = [do(table, "upsert", [0, v], v) for v in range(1, 4)]
    table.lake().run("compaction", options=ONCE)
    written.append(do(table, "upsert", [0, 7], 4))
    with pytest.raises(Exception, match="killed"):
        stream.run(fails=True)
    written.append(do(table, "delete", [0, 1], 5))
    with pytest.raises(Exception, match="killed"):
        stream.run(fails=True, after=2)
    table.lake().run("clustering", options=ONCE)
    stream.run()
    first, again, second, once_more = (rows for _, rows in stream.batches[:4])
    assert sorted(first) == sorted(again)
    assert sorted(second) == sorted(once_more)
    done = dict(stream.batches)
    assert sorted(done) == list(range(len(done)))
    replica: dict[str, int] = {}
    for number in sorted(done):
        assert len(commits_of(done[number])) <= commits_max
        replica = applied(replica, done[number])
    assert replica == dict(table.values())
    assert [time for entry in sorted(done) for time in sorted(commits_of(done[entry]))] == written
    assert len(done) == (len(written) + commits_max - 1) // commits_max


@pytest.mark.parametrize("services", [("cleaning",), ("cleaning", "archival")])
def test_limited_batches_of_rows_outlive_what_cleaning_removes(
    spark: SparkSession, table: SmallTable, services: tuple[str, ...]
) -> None:
    """Where files of a batch's end are gone, rows are as they are now."""
    for v in range(1, 9):
        do(table, "upsert", [0, v], v)
    newest_alone = {
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }
    table.lake().run("compaction", options=ONCE)
    for service in services:
        assert table.lake().run(service, options=ONCE | SOON | newest_alone).done
    stream = Stream(spark, table, {"maxCommitsPerTrigger": "1"})
    assert values(stream.run()) == dict(table.values())
    found = [set(values(rows)) - {"k000"} for _, rows in stream.batches]
    if "archival" in services:
        # All that is archived is in the first batch.
        found[0] = set()
        assert 1 < len(found) < 8
    else:
        assert found == [{f"k00{v}"} for v in range(1, 9)]
    assert all(len(keys) <= 1 for keys in found)


def test_a_trigger_that_asks_for_everything_has_no_limit(
    spark: SparkSession, table: SmallTable
) -> None:
    for v in range(1, 4):
        do(table, "upsert", [v], v)
    stream = Stream(spark, table, {"maxCommitsPerTrigger": "1"}, trigger={"once": True})
    stream.run()
    assert [len(rows) for _, rows in stream.batches] == [3]


def test_a_query_that_goes_on_keeps_to_the_limit_and_says_how_far_behind_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    for v in range(1, 4):
        do(table, "upsert", [v], v)
    register(spark)
    reader = spark.readStream.format("tideline").option("maxCommitsPerTrigger", "1")
    writer = reader.load(table.location.uri).writeStream.format("noop")
    query = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").start()
    try:
        query.processAllAvailable()
        sources = [progress["sources"][0] for progress in query.recentProgress]
    finally:
        query.stop()
    batches = [source for source in sources if source["numInputRows"]]
    assert [item["numInputRows"] for item in batches] == [1, 1, 1]
    ends = [json.loads(item["endOffset"])["until"] for item in batches]
    assert ends == sorted(set(ends))
    assert {json.loads(item["latestOffset"])["until"] for item in batches} == {ends[-1]}


@pytest.mark.parametrize("changes", ["true", "false"])
def test_a_batch_that_runs_again_has_the_columns_of_now(
    spark: SparkSession, table: SmallTable, changes: str
) -> None:
    do(table, "insert", range(2), 1)
    stream = Stream(spark, table, {"changes": changes})
    with pytest.raises(Exception, match="killed"):
        stream.run(fails=True)
    wider = batch([2], 2).append_column("n", pa.array([5], pa.int64()))
    table.lake().write(wider, "upsert", options=QUIET)
    found = {row["id"]: row["n"] for row in stream.run()}
    assert found == {"k000": None, "k001": None, "k002": 5}


def test_rows_come_once_from_the_time_it_begins_after(
    spark: SparkSession, table: SmallTable
) -> None:
    first = do(table, "insert", range(4), 1)
    do(table, "upsert", [1], 2)
    stream = Stream(spark, table, {"after": first})
    assert values(stream.run()) == {"k001": 2}
    do(table, "upsert", [0, 9], 3)
    assert values(stream.run()) == {"k000": 3, "k009": 3}
    assert stream.run() == []


def test_a_write_that_ends_late_is_not_lost(spark: SparkSession, table: SmallTable) -> None:
    do(table, "insert", [0, 1], 1)
    stream = Stream(spark, table, {"changes": "true"})
    replica: dict[str, int] = {}

    def meanwhile() -> None:
        nonlocal replica
        do(table, "upsert", [1, 3], 2)
        replica = applied(replica, stream.run())

    table.write("upsert", batch([0, 2], 3), options=QUIET, after_files=meanwhile)
    # By completion the other write comes first; by request it waits.
    has_completion_times = table.lake().hoodie_table.layout.timeline.has_completion_times
    assert ("k003" in replica) == has_completion_times
    replica = applied(replica, stream.run())
    assert replica == dict(table.values()) == {"k000": 3, "k001": 2, "k002": 3, "k003": 2}


@pytest.mark.parametrize("changes", ["true", "false"])
def test_a_time_to_begin_after_stays_what_it_was(
    spark: SparkSession, tmp_path: Path, changes: str
) -> None:
    """It is of no commit when the stream begins, and of one when its first batch runs again."""
    table = SmallTable.create(StoreLocation.of(tmp_path / "table"), table_version=9)
    do(table, "insert", [0, 1], 1)
    streams: list[Stream] = []

    def meanwhile() -> None:
        pending = table.lake().timeline().pending().last()
        assert pending is not None
        do(table, "upsert", [1, 3], 2)
        stream = Stream(spark, table, {"changes": changes, "after": str(pending.time)})
        with pytest.raises(Exception, match="killed"):
            stream.run(fails=True)
        streams.append(stream)

    table.write("upsert", batch([0, 2], 3), options=QUIET, after_files=meanwhile)
    (stream,) = streams
    assert values(stream.run()) == {"k000": 3, "k001": 2, "k002": 3, "k003": 2}
    (_, seen), (_, again) = stream.batches[:2]
    assert sorted(seen) == sorted(again)


def test_changes_that_are_archived_name_the_earliest_beginning(
    spark: SparkSession, table: SmallTable
) -> None:
    for v in range(1, 9):
        do(table, "upsert", [0, 1], v)
    for service in ("compaction", "cleaning", "archival"):
        table.lake().run(service, options=ONCE | SOON)
    with pytest.raises(Exception, match=r"the earliest time to begin after is [0-9]+"):
        Stream(spark, table, {"changes": "true"}).run()
    # Rows are read from the table as it is.
    stream = Stream(spark, table, {}, "rows")
    assert values(stream.run()) == {"k000": 8, "k001": 8}
    do(table, "upsert", [1], 9)
    assert values(stream.run()) == {"k001": 9}


def test_a_batch_read_has_the_changes_of_a_range(spark: SparkSession, table: SmallTable) -> None:
    register(spark)
    reader = spark.read.format("tideline").option("changes", "true")
    instants = [
        do(table, "insert", range(4), 1),
        do(table, "upsert", [1, 5], 2),
        do(table, "delete", [0], 3),
    ]
    for options in ({}, {"after": instants[0]}, {"after": instants[0], "until": instants[1]}):
        feed = table.lake().changes(options.get("after", BEGINNING), options.get("until"))
        expected = feed.read_all().select([CHANGE_TYPE, CHANGE_INSTANT, "id", "v"]).to_pylist()
        frame = reader.options(**options).load(table.location.uri)
        assert frame.columns == feed.schema.names
        found = frame.select(CHANGE_TYPE, CHANGE_INSTANT, "id", "v").collect()
        assert sorted(found) == sorted(tuple(row.values()) for row in expected)
    narrow = spark.read.schema("id string, _change_type string").format("tideline")
    frame = narrow.option("changes", "true").load(table.location.uri)
    assert frame.where("_change_type = 'DELETE'").collect() == [("k000", "DELETE")]


def test_an_incremental_read_shows_deleted_rows_where_it_is_asked_to(
    spark: SparkSession, table: SmallTable
) -> None:
    first = do(table, "insert", range(4), 1)
    do(table, "upsert", [1, 5], 2)
    until = do(table, "delete", [0, 5], 3)
    do(table, "upsert", [2], 4)
    lake = table.lake()
    columns = [CHANGE_TYPE, CHANGE_INSTANT, "id", "v"]
    for end in (until, None):
        expected = lake.net_changes(first, end).read_all()
        frame = lake.incremental(spark, first, end, deletes=True)
        assert frame.columns == expected.schema.names
        rows = [tuple(row.values()) for row in expected.select(columns).to_pylist()]
        assert sorted(frame.select(*columns).collect()) == sorted(rows)
    assert {row[0] for row in rows} == {"DELETE", "UPDATE_AFTER"}
    options = f"OPTIONS (path '{table.location.uri}', deletes 'true', after '{first}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW net USING tideline {options}")
    gone = spark.sql("SELECT id, v FROM net WHERE _change_type = 'DELETE'").collect()
    assert [tuple(row) for row in gone] == [("k000", 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": "20260101000000001", "after": "0"}, "a stream has no `until`"),
        ({"as_of": "{instant}"}, "a stream has no `as_of`"),
        ({"as_of": "20260101000000001", "changes": "true"}, "is for snapshots"),
        ({"changes": "perhaps"}, "true or false"),
        ({"deletes": "true", "after": "0"}, "a stream has no `deletes`"),
        ({"deletes": "true"}, "`deletes` is for incremental reads"),
        ({"maxCommitsPerTrigger": "0"}, "`maxCommitsPerTrigger` is a whole number above zero"),
        ({"maxBytesPerTrigger": "10g"}, "`maxBytesPerTrigger` is a whole number above zero"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    table = SmallTable.create(StoreLocation.of(tmp_path / "table"))
    instant = do(table, "insert", [0], 1)
    given = {name: text.format(instant=instant) for name, text in options.items()}
    with pytest.raises(Exception, match=message):
        Stream(spark, table, given).run()


def test_a_range_of_rows_ends_at_its_offset_though_it_begins_in_the_archive(
    spark: SparkSession, table: SmallTable
) -> None:
    """As after a death: the offsets are noted, commits and services follow, the batch runs."""
    for v in range(1, 9):
        do(table, "upsert", [0, 1], v)
    stream = Stream(spark, table, {})
    with pytest.raises(Exception, match="killed"):
        stream.run(fails=True)
    do(table, "upsert", [1, 2], 9)
    for service in ("compaction", "archival"):
        table.lake().run(service, options=ONCE | SOON)
    rows = [values(rows) for _, rows in stream.batches]
    assert rows == [{"k000": 8, "k001": 8}]
    assert {"k000": 8, "k001": 9, "k002": 9}.items() <= values(stream.run()).items()
