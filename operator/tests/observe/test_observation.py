"""Looking at real tables on a local folder: what is seen of timelines, writers and landings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import RollBack
from tideline.ingest.sources.checkpoint import INGEST_KEY, checkpoint_metadata
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.look import LOCAL_SETTLE_MS
from tideline.storage.heartbeat import heartbeat_path
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import checkpoint_after
from tideline_operator.decide.observed import LOCATION_TAKEN, Observed
from tideline_operator.decide.planner import plan
from tideline_operator.observe.observation import Observer
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.table_states import EMPTY, NOW_MS, resolved, starts, with_landing

CLOCK = SystemClock()
HEARTBEAT_MS = 60_000 * 10


@pytest.fixture
def table(tmp_path: Path) -> ResolvedTable:
    declared = resolved()
    return replace(
        with_landing(declared, Location(f"file://{tmp_path}/landing")),
        location=Location(f"file://{tmp_path}/table"),
    )


def found_in(observed: Observed) -> FileListing:
    available = observed.sources["landing"].available
    assert isinstance(available, FileListing)
    return available


def created(table: ResolvedTable, **properties: str) -> HoodieTable:
    location = StoreLocation.of(table.location.uri)
    definition = TableDefinition(
        name="people",
        record_key=("id",),
        partition_by=("city",),
        ordering=("ts",),
        table_version=6,
        properties=properties,
    )
    create_table(location.open(), definition, CLOCK)
    return open_table(location, CLOCK)


def write(hoodie: HoodieTable, day: int, extra: Mapping[str, str] | None, *, beats: bool = False,
          age_s: float = 0.0) -> str:  # fmt: skip
    """A commit on that day of January: complete with `extra` metadata, or left inflight."""
    time = InstantTime.parse(f"202601{day:02}000000000")
    instant = hoodie.timelines.create_requested(time, Action.COMMIT)
    instant = hoodie.timelines.to_inflight(instant)
    if extra is not None:
        metadata = CommitMetadata({}, "UPSERT", dict(extra))
        hoodie.timelines.complete(instant, metadata.encode())
    if beats:
        hoodie.store.put(heartbeat_path(str(time)), b"")
        path = hoodie.store.local_path(heartbeat_path(str(time)))
        assert path is not None
        moment = CLOCK.now_ms() / 1000 - age_s
        os.utime(path, (moment, moment))
    return str(time)


def test_where_there_is_no_table_none_is_seen(table: ResolvedTable) -> None:
    observed = Observer(CLOCK).observe(table, EMPTY)
    assert (observed.table, observed.problem) == (None, None)
    assert not found_in(observed).exists


def test_a_table_is_seen_as_it_was_created_and_agrees_with_its_spec(table: ResolvedTable) -> None:
    hoodie = created(table)
    write(hoodie, 1, {})
    latest = write(hoodie, 2, {})
    seen = Observer(CLOCK).observe(table, EMPTY).table
    assert seen is not None
    assert (seen.record_key, seen.partition_by, seen.ordering) == (("id",), ("city",), ("ts",))
    assert (seen.latest, seen.latest_action, seen.completed) == (latest, "commit", 2)
    assert starts(plan(table, EMPTY, Observer(CLOCK).observe(table, EMPTY), NOW_MS)) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (".hoodie/hoodie.properties", "is inside the Hudi table at file://{};"),
        ("metadata/00001-a.metadata.json", "is inside the Iceberg table at file://{};"),
        ("table/x/.hoodie/hoodie.properties", "is around the Hudi table at file://{}/table/x;"),
        ("table/metadata/00001-a.metadata.json", "is that of an Iceberg table;"),
        ("tables/.hoodie/hoodie.properties", None),
        ("table/orders.csv", None),
    ],
)
def test_a_table_of_others_at_the_place_of_one_to_come_is_a_problem(
    table: ResolvedTable, tmp_path: Path, found: str, words: str | None
) -> None:
    (tmp_path / found).parent.mkdir(parents=True)
    (tmp_path / found).touch()
    problem = Observer(CLOCK).observe(table, EMPTY).problem
    if words is None:
        assert problem is None
    else:
        assert problem is not None and problem.reason == LOCATION_TAKEN
        assert words.format(tmp_path) in problem.message


def test_checkpoints_are_read_from_commits_once_each(table: ResolvedTable) -> None:
    hoodie = created(table)
    file = ArrivedFile("f.parquet", 1, 5)
    checkpoint = checkpoint_after(None, FileListing((file,)), [file])
    write(hoodie, 1, {**checkpoint_metadata({"landing": checkpoint}), INGEST_KEY: "landing"})
    write(hoodie, 2, {})
    observer = Observer(CLOCK)
    for _ in range(2):
        seen = observer.observe(table, EMPTY).table
        assert seen is not None
        assert seen.checkpoints == {"landing": checkpoint}
        # Completed commits never change, so a second look must not need the first one's body.
        path = hoodie.store.local_path(".hoodie/20260101000000000.commit")
        assert path is not None
        Path(path).write_text("not read again")


def test_a_writer_without_a_young_heartbeat_is_dead_and_planned_to_be_rolled_back(
    table: ResolvedTable,
) -> None:
    hoodie = created(table)
    silent = write(hoodie, 1, None)
    lapsed = write(hoodie, 2, None, beats=True, age_s=HEARTBEAT_MS / 1000 + 5)
    alive = write(hoodie, 3, None, beats=True)
    observed = Observer(CLOCK).observe(table, EMPTY)
    assert observed.table is not None
    found = {item.time: item for item in observed.table.pending}
    assert {time: item.is_dead for time, item in found.items()} == {
        silent: True, lapsed: True, alive: False
    }  # fmt: skip
    dead_at_ms = found[alive].dead_at_ms
    assert dead_at_ms is not None
    assert 0 < dead_at_ms - CLOCK.now_ms() <= HEARTBEAT_MS
    (start,) = starts(plan(table, EMPTY, observed, CLOCK.now_ms()))
    assert isinstance(start.operation.work, RollBack)
    assert set(start.operation.work.instants) == {silent, lapsed}


def test_a_declared_single_writer_leaves_nothing_but_dead_instants(table: ResolvedTable) -> None:
    hoodie = created(table, **{"tideline.single.writer": "true"})
    write(hoodie, 1, None, beats=True)
    seen = Observer(CLOCK).observe(table, EMPTY).table
    assert seen is not None
    assert [item.is_dead for item in seen.pending] == [True]


def test_heartbeat_settings_of_the_table_count(table: ResolvedTable) -> None:
    hoodie = created(
        table,
        **{
            "hoodie.client.heartbeat.interval_in_ms": "1000",
            "hoodie.client.heartbeat.tolerable.misses": "2",
        },
    )
    write(hoodie, 1, None, beats=True, age_s=5)
    seen = Observer(CLOCK).observe(table, EMPTY).table
    assert seen is not None
    assert [item.is_dead for item in seen.pending] == [True]


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (".hoodie/hoodie.properties", "hoodie.table.name=x", "CorruptTable"),
        (".hoodie/20260101000000000.commit", '{"extraMetadata": ', "CorruptTable"),
    ],
)
def test_a_broken_table_is_a_problem_and_not_an_exception(
    table: ResolvedTable, path: str, body: str, reason: str
) -> None:
    hoodie = created(table)
    write(hoodie, 1, {})
    broken = hoodie.store.local_path(path)
    assert broken is not None
    Path(broken).write_text(body)
    problem = Observer(CLOCK).observe(table, EMPTY).problem
    assert problem is not None
    assert (problem.reason, problem.exit_code, problem.is_transient) == (reason, 1, False)


def test_a_damaged_checkpoint_stops_the_table_rather_than_repeat_files(
    table: ResolvedTable,
) -> None:
    write(created(table), 1, {"tideline.checkpoint.landing": "{}"})
    observed = Observer(CLOCK).observe(table, EMPTY)
    assert observed.problem is not None
    assert "checkpoint of ingest 'landing'" in observed.problem.message
    assert starts(plan(table, EMPTY, observed, NOW_MS)) == []


def test_only_landings_that_are_due_are_listed(table: ResolvedTable, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a.parquet").write_bytes(b"x")
    observer = Observer(CLOCK)
    first = observer.observe(table, EMPTY)
    assert [file.path for file in found_in(first).files] == ["a.parquet"]
    assert found_in(first).settle_ms == LOCAL_SETTLE_MS
    fenced = replace(table.resource, spec=replace(table.spec, fenced=True))
    assert observer.observe(replace(table, resource=fenced), LakeTableStatus()).sources == {}


def test_a_suspended_table_is_not_looked_at(table: ResolvedTable) -> None:
    created(table)
    resource = replace(table.resource, spec=replace(table.spec, suspend=True))
    observed = Observer(CLOCK).observe(replace(table, resource=resource), EMPTY)
    assert (observed.table, observed.sources) == (None, {})
