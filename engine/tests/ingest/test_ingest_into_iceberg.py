"""Ingests into Iceberg tables: each row once, beside deaths, failures and other writers."""

from __future__ import annotations

import datetime as dt
import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.errors import CorruptTableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.ingest_table import TakenRange
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    CatalogEntry,
    CreateTable,
    IngestRange,
    Operation,
)
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources import iceberg_checkpoints as checkpoints_in_iceberg
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.iceberg_feed import IcebergFeed, new_target, tables_through
from tideline.testing.stepping_store import Step, SteppingStore

DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def rows(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": n, "at": DAY + dt.timedelta(days=n % 3), **more} for n in numbers]


@pytest.fixture
def feed(tmp_path: Path) -> IcebergFeed:
    return IcebergFeed(tmp_path, new_target(partition_by=("day(at)", "bucket(2, id)")))


def test_batches_become_snapshots_and_nothing_goes_in_twice(feed: IcebergFeed) -> None:
    for numbers in ((1, 2), (3,), (4, 5, 6)):
        feed.land(rows(*numbers))
    first = feed.run(files_max=2)
    assert (first.outcome, first.source_files, first.rows_inserted) == (Outcome.SUCCEEDED, 2, 3)
    stale = feed.plan()
    assert feed.run().rows_inserted == 3
    overtaken = feed.execute(stale)
    assert (overtaken.outcome, overtaken.message) == (
        Outcome.NOTHING,
        "the checkpoint is at generation 2, planned with 1",
    )
    assert feed.run().outcome is Outcome.NOTHING
    assert feed.ids() == [1, 2, 3, 4, 5, 6]
    lake = feed.lake()
    assert lake.metadata.schema().identifier_field_ids == (1,)
    assert lake.partitions()["partition"].to_pylist()
    assert lake.current_snapshot is not None
    summary = lake.current_snapshot.summary
    assert json.loads(summary["tideline.ingest.files"]) == ["00003.parquet"]
    assert summary["tideline.ingest"] == "landing"


def test_columns_that_files_bring_are_added_and_widened(feed: IcebergFeed) -> None:
    feed.land([{"id": 1, "at": DAY, "n": pa.scalar(1, pa.int32()).as_py(), "place": {"zip": 1}}])
    feed.run()
    feed.land([{"ID": 2, "at": DAY, "place": {"zip": 2, "town": "x"}, "tags": ["a"]}])
    result = feed.run()
    assert result.columns_added == ("place.town string", "tags list<element: string>")
    found = feed.lake().to_arrow().sort_by("id").to_pylist()
    assert [(row["n"], row["place"], row["tags"]) for row in found] == [
        (1, {"zip": 1, "town": None}, None),
        (None, {"zip": 2, "town": "x"}, ["a"]),
    ]


@pytest.mark.parametrize(
    ("brought", "found"),
    [
        ({"place": {"ZIP": 2}}, {"place": {"zip": 2}}),
        ({"place": {"zip": 2, "town": None}}, {"place": {"zip": 2}}),
        ({"place": {"town": None}}, {"place": {"zip": None}}),
        ({"Stops": [{"At": 2, "b": None}, None]}, {"stops": [{"at": 2}, None]}),
        ({"more": {"a": 1, "b": None}}, {"more": {"a": 1}}),
    ],
)
def test_parts_of_columns_are_found_as_columns_are(
    feed: IcebergFeed, brought: dict[str, Any], found: dict[str, Any]
) -> None:
    feed.land(rows(1, place={"zip": 1}, stops=[{"at": 1}]))
    feed.run()
    work = feed.plan().work
    assert isinstance(work, IngestRange)
    before = feed.checkpoints()
    checkpoint = replace(before["landing"], generation=2)
    taken = TakenRange("second", work, ("00002",), checkpoint, before)
    given = [*rows(2, **brought), *rows(3)]
    feed.opened().write(pa.Table.from_pylist(given), taken)
    (row,) = feed.lake().to_arrow(filter="id = 2").to_pylist()
    assert {name: row[name] for name in found} == found
    assert feed.ids() == [1, 2, 3]


def test_a_declared_table_is_created_with_its_columns(tmp_path: Path) -> None:
    kinds = {"id": "int", "at": "timestamp", "name": "string"}
    columns = tuple(Column(name, ColumnType.parse(kind)) for name, kind in kinds.items())
    feed = IcebergFeed(tmp_path, new_target(schema=columns, partition_by=("month(at)",)))
    create = Operation("create", feed.target, CreateTable())
    outcomes = [execute_operation(create, session_factory=_fail).outcome for _ in range(2)]
    assert outcomes == [Outcome.SUCCEEDED, Outcome.NOTHING]
    assert feed.lake().schema.names == ["id", "at", "name"]
    feed.land(rows(1))
    assert feed.run().rows_inserted == 1


def test_a_table_is_of_the_declared_version_and_is_upgraded(tmp_path: Path) -> None:
    feed = IcebergFeed(tmp_path, new_target(format_version=3))
    feed.land(rows(1))
    feed.run()
    assert feed.lake().version == 3
    feed.target = new_target()
    feed.run()
    assert feed.lake().version == 2
    for wanted, words in (
        (2, "the table is there already"),
        (3, "upgraded the table to version 3"),
        (2, "the table is there already"),
        (None, "the table is there already"),
    ):
        target = replace(feed.target, format_version=wanted)
        found = execute_operation(Operation("create", target, CreateTable()), session_factory=_fail)
        assert found.message == words
    assert feed.lake().version == 3
    feed.land(rows(2))
    feed.run()
    assert feed.ids() == [1, 2]
    assert feed.lake().check() == ()


def test_a_range_without_rows_is_a_commit_that_says_so(feed: IcebergFeed) -> None:
    feed.land(rows(1))
    feed.run()
    name = feed.land(rows(2))
    empty = pa.Table.from_pylist(rows(2)).slice(0, 0)
    pq.write_table(empty, feed.folder / "landing" / name)
    assert feed.run().outcome is Outcome.SUCCEEDED
    assert feed.checkpoints()["landing"].generation == 2
    assert feed.run().outcome is Outcome.NOTHING
    assert feed.ids() == [1]


def test_two_ingests_share_a_table(feed: IcebergFeed) -> None:
    feed.land(rows(1))
    feed.run("a")
    feed.run("b")
    feed.land(rows(2))
    feed.run("a")
    assert feed.ids() == [1, 1, 2]
    assert {name: item.generation for name, item in feed.checkpoints().items()} == {"a": 2, "b": 1}
    renamed = feed.run("c", former_name="b")
    assert renamed.rows_inserted == 1
    assert feed.checkpoints()["c"].took_over == "b"


def crashing(feed: IcebergFeed, operation: Operation, plan: FaultPlan) -> FaultyStore:
    """The store through which the operation wrote."""
    stores: list[FaultyStore] = []

    def wrapped(inner: Any) -> FaultyStore:
        stores.append(FaultyStore(inner, plan))
        return stores[-1]

    with tables_through(wrapped):
        feed.execute(operation)
    return stores[0]


def prepared(feed: IcebergFeed, *, has_table: bool) -> tuple[IcebergFeed, Operation]:
    """A table like that of `feed`, and the ingest of a file that brings a column."""
    found = feed.elsewhere()
    if has_table:
        found.run(files_max=1)
    return found, found.plan()


@pytest.mark.parametrize("has_table", [True, False])
def test_a_death_at_any_write_repeats_the_range_once(feed: IcebergFeed, has_table: bool) -> None:
    feed.land(rows(1, 2))
    feed.land(rows(3, 4, name="new"))
    before, after = ([1, 2] if has_table else []), [1, 2, 3, 4]
    found, planned = prepared(feed, has_table=has_table)
    total = len(crashing(found, planned, FaultPlan()).writes)
    assert total > 5
    seen = set()
    for number in range(1, total + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            found, planned = prepared(feed, has_table=has_table)
            with pytest.raises(SimulatedCrash):
                crashing(found, planned, plan)
            seen.add(tuple(found.ids()))
            assert found.ids() in (before, after), plan
            found.execute(planned)
            assert found.ids() == after, plan
            assert found.run().outcome is Outcome.NOTHING
    assert seen == {tuple(before), tuple(after)}


def test_any_call_of_the_store_may_fail_once(feed: IcebergFeed) -> None:
    feed.land(rows(1, 2))
    feed.land(rows(3))
    found, planned = prepared(feed, has_table=True)
    calls = crashing(found, planned, FaultPlan()).calls
    for number in range(1, calls + 1):
        found, planned = prepared(feed, has_table=True)
        crashing(found, planned, FaultPlan(unavailable_calls=frozenset([number])))
        found.execute(planned)
        assert found.ids() == [1, 2, 3], number


@pytest.mark.parametrize("reply", LostReply, ids=lambda reply: reply.value)
def test_a_lost_reply_is_no_second_commit(feed: IcebergFeed, reply: LostReply) -> None:
    feed.land(rows(1, 2))
    found, planned = prepared(feed, has_table=False)
    plan = FaultPlan(lost_reply_of_conditional_write=2, lost_reply=reply)
    crashing(found, planned, plan)
    found.execute(planned)
    assert found.ids() == [1, 2]


@pytest.mark.parametrize("same", [True, False])
def test_another_driver_that_is_faster_is_a_conflict(feed: IcebergFeed, same: bool) -> None:
    feed.land(rows(1))
    feed.run()
    feed.land(rows(2, 3))
    planned = feed.plan()
    done: list[Step] = []

    def before(step: Step) -> None:
        if "metadata/v" in step.path and step.method == "put_if_absent" and not done:
            done.append(step)
            feed.run("landing" if same else "other")

    with tables_through(lambda inner: SteppingStore(inner, before)):
        result = feed.execute(planned)
    assert done
    if same:
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 3)
        assert result.is_safe_to_retry
        assert "another driver of ingest 'landing' has committed" in result.message
        assert feed.execute(planned).outcome is Outcome.NOTHING
        assert feed.ids() == [1, 2, 3]
    else:
        assert result.outcome is Outcome.SUCCEEDED
        assert feed.ids() == [1, 1, 2, 2, 3, 3]
    listed = sorted(feed.lake().files()["file"].to_pylist())
    data = [path for path, _ in feed.lake().table.io.list(f"{feed.lake().uri}/data")]
    assert sorted(data) == listed, "the files of the one that was late are removed"


def others(feed: IcebergFeed, count: int) -> None:
    """Snapshots of another writer."""
    for number in range(count):
        feed.lake().write(rows(100 + number))


def expired(feed: IcebergFeed) -> None:
    lake = feed.lake()
    lake.expire(older_than=dt.timedelta(milliseconds=-1_000), retain_last=1)
    assert len(feed.lake().snapshots) <= 2


@pytest.mark.parametrize("size_max", [4_096, 10])
def test_others_and_expiry_do_not_lose_the_checkpoint(
    feed: IcebergFeed, monkeypatch: pytest.MonkeyPatch, size_max: int
) -> None:
    monkeypatch.setattr(checkpoints_in_iceberg, "SUMMARY_CHARACTERS_MAX", size_max)
    feed.land(rows(1))
    feed.run()
    others(feed, 3)
    assert feed.checkpoints()["landing"].generation == 1
    expired(feed)
    assert feed.checkpoints()["landing"].generation == 1
    feed.land(rows(2))
    assert feed.run().rows_inserted == 1
    assert feed.ids() == [1, 2, 100, 101, 102]


def test_a_table_that_is_taken_back_is_read_on_from_there(feed: IcebergFeed) -> None:
    feed.land(rows(1))
    feed.run()
    first = feed.lake().current_snapshot
    assert first is not None
    feed.land(rows(2))
    feed.run()
    feed.lake().alter().rollback(first.snapshot_id).commit()
    assert feed.ids() == [1]
    assert feed.checkpoints()["landing"].generation == 1
    assert feed.run().rows_inserted == 1
    assert feed.ids() == [1, 2]


def test_an_undone_checkpoint_that_nothing_replaces_is_named(
    feed: IcebergFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints_in_iceberg, "SUMMARY_CHARACTERS_MAX", 10)
    feed.land(rows(1))
    feed.run()
    first = feed.lake().current_snapshot
    assert first is not None
    feed.land(rows(2))
    feed.run()
    feed.lake().alter().rollback(first.snapshot_id).commit()
    with pytest.raises(CorruptTableError, match="the table was taken back to before"):
        feed.checkpoints()
    result = feed.execute(feed.elsewhere().plan())
    assert result.outcome is Outcome.SUCCEEDED, "another table is not this one"


def test_a_checkpoint_before_the_first_snapshot_that_is_left_counts(feed: IcebergFeed) -> None:
    """Taken back to another writer's snapshot, whose ancestors have expired."""
    feed.land(rows(1))
    feed.run()
    others(feed, 1)
    kept = feed.lake().current_snapshot
    assert kept is not None
    feed.land(rows(2))
    feed.run()
    lake = feed.lake()
    lake.alter().create_tag("undone").commit()
    lake.alter().rollback(kept.snapshot_id).commit()
    ancestor = next(item for item in lake.snapshots if item.snapshot_id == kept.parent_snapshot_id)
    feed.lake().expire(snapshot_ids=[ancestor.snapshot_id])
    with pytest.raises(CorruptTableError, match="the table was taken back to before"):
        feed.checkpoints()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"generation": 1}', "\x00"])
def test_a_checkpoint_that_somebody_wrote_over_is_named(feed: IcebergFeed, text: str) -> None:
    feed.land(rows(1))
    feed.run()
    feed.lake().write(rows(2), extra_metadata={"other": "x"})
    lake = feed.lake()
    # A property alone changes nothing: the snapshot says it.
    lake.table.operations.commit(
        lake.table.loaded, (), (SetProperties({"tideline.checkpoint.landing": text}),)
    )
    assert feed.checkpoints()["landing"].generation == 1
    expired(feed)
    with pytest.raises(CorruptTableError, match="the checkpoint of ingest 'landing'"):
        feed.checkpoints()


def sql_catalog(folder: Path) -> tuple[Any, CatalogEntry]:
    """A catalog of PyIceberg's with a namespace, and the place of a feed's table in it."""
    pytest.importorskip("pyiceberg")
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"{folder}/w"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    return catalog, CatalogEntry("lake", "db.feed", tuple(sorted(properties.items())))


def test_a_table_in_a_catalog(tmp_path: Path) -> None:
    catalog, entry = sql_catalog(tmp_path)
    target = replace(new_target(partition_by=("id",)), catalog=entry)
    feed = IcebergFeed(tmp_path, replace(target, location=replace(target.location, uri="")))
    feed.land(rows(1, 2))
    planned = feed.plan()
    assert feed.execute(planned).rows_inserted == 2
    assert feed.execute(planned).outcome is Outcome.NOTHING
    catalog.load_table("db.feed").append(catalog.load_table("db.feed").scan().to_arrow())
    feed.land(rows(3))
    assert feed.run().rows_inserted == 1
    found = catalog.load_table("db.feed").scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, 1, 2, 2, 3]


def test_an_expiry_that_takes_the_parent_from_what_stays(tmp_path: Path) -> None:
    catalog, entry = sql_catalog(tmp_path)
    feed = IcebergFeed(tmp_path, replace(new_target(), location=Location(""), catalog=entry))
    feed.land(rows(1, 2))
    feed.run()
    table = catalog.load_table("db.feed")
    first = table.current_snapshot()
    assert first is not None
    table.append(table.scan(row_filter="id = 1").to_arrow())
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    (left,) = catalog.load_table("db.feed").metadata.snapshots
    assert left.parent_snapshot_id is None
    assert feed.checkpoints()["landing"].generation == 1
    feed.land(rows(3))
    assert feed.run().rows_inserted == 1
    assert feed.ids() == [1, 1, 2, 3]


class History:
    """A random history: files land, ingests take them, others write, services run, steps are
    undone. What the table has is what the model says."""

    def __init__(self, feed: IcebergFeed, seed: int) -> None:
        self.feed = feed
        self.random = random.Random(seed)
        self.next_id = 0
        self.waiting: list[list[int]] = []
        self.rows: list[int] = []

    def land(self) -> None:
        numbers = [self.next_id + offset for offset in range(self.random.randint(1, 5))]
        self.next_id += len(numbers)
        more = {"extra": "x"} if self.random.random() < 0.3 else {}
        self.feed.land(rows(*numbers, **more))
        self.waiting.append(numbers)

    def ingest(self) -> None:
        count = self.random.randint(1, 3)
        operation = self.feed.plan(files_max=count)
        if self.random.random() < 0.4:
            plan = FaultPlan(crash_after_write=self.random.randint(1, 9))
            if self.random.random() < 0.5:
                plan = FaultPlan(self.random.randint(1, 9))
            with suppress(SimulatedCrash), tables_through(lambda inner: FaultyStore(inner, plan)):
                self.feed.execute(operation)
        self.feed.execute(operation)
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        self.rows += [number for numbers in taken for number in numbers]

    def other(self) -> None:
        if self.feed.opened().exists:
            self.feed.lake().write(rows(-1))
            self.rows.append(-1)

    def serve(self) -> None:
        if self.feed.opened().exists:
            self.feed.lake().run("rewrite_data_files", options={"rewrite-all": "true"})

    def expire(self) -> None:
        if self.feed.opened().exists and self.feed.lake().snapshots:
            self.feed.lake().expire(older_than=dt.timedelta(milliseconds=-1), retain_last=1)

    def run(self, steps: int) -> None:
        moves = (
            self.land,
            self.land,
            self.ingest,
            self.ingest,
            self.other,
            self.serve,
            self.expire,
        )
        for _ in range(steps):
            self.random.choice(moves)()
            assert self.feed.ids() == sorted(self.rows)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_history_of_ingests(feed: IcebergFeed, seed: int) -> None:
    history = History(feed, seed)
    history.land()
    history.run(25)
    while history.waiting:
        history.ingest()
    assert feed.ids() == sorted(history.rows)


def test_others_read_it(tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    from pyiceberg.table import StaticTable

    target = new_target(partition_by=("day(at)", "bucket(2, id)"))
    place = replace(target.location, uri=(tmp_path / "table").as_uri())
    feed = IcebergFeed(tmp_path, replace(target, location=place))
    for numbers in ((1, 2), (3, 4)):
        feed.land(rows(*numbers))
        feed.run()
    known = feed.lake().table.loaded.metadata_location
    assert sorted(StaticTable.from_metadata(known).scan().to_arrow()["id"].to_pylist()) == [
        *range(1, 5)
    ]
    assert tideline.open_iceberg(place.uri).count() == 4


def _fail(_: object) -> Any:
    raise AssertionError("no Spark")
