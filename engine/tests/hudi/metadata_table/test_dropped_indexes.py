"""Partitions of the metadata table go with their definitions, and not while one is built."""

from __future__ import annotations

import json

import pytest

from tideline.check_finding import Severity
from tideline.errors import ConflictError
from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.repair import repair_table
from tideline.hudi.check.run import check_table
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION, FilesRecord, FileState
from tideline.hudi.metadata_table.index_definitions import INDEX_DEFINITIONS_PATH
from tideline.hudi.metadata_table.keep import _drop_others
from tideline.hudi.metadata_table.partition import MetadataPartition
from tideline.hudi.metadata_table.reader import MetadataTable, StoredPartition
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.writer import MetadataWriter
from tideline.hudi.open_table import open_table
from tideline.hudi.recovery.execute import FailedWrites
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import PROPERTIES_PATH, format_properties
from tideline.hudi.table.table_config import (
    FILES,
    METADATA_PARTITIONS,
    METADATA_PARTITIONS_INFLIGHT,
    METADATA_TABLE_PATH,
)
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.lock import unguarded
from tideline.testing.dead_index_build import index_plan, put_index_build
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import stale_listing

OFF = {"hoodie.metadata.enable": "false"}
FAILED = FailedWrites(eager=False, never=False, heartbeat=DEFAULT_LIMITS)


def opened(small: SmallTable) -> HoodieTable:
    return small.lake().hoodie_table


def is_kept(small: SmallTable) -> bool:
    table = opened(small)
    return table.config.metadata_partitions == (FILES,) and stale_listing(table) == []


def with_indexes(small: SmallTable, *names: str) -> HoodieTable:
    """Partitions of indexes as Hudi's SQL makes them: listed, defined, and with a file."""
    table = opened(small)
    table.properties.update({METADATA_PARTITIONS: ",".join(sorted((FILES, *names)))})
    for name in names:
        table.store.put(f"{METADATA_TABLE_PATH}/{name}/{name}-0000-0_0-0-0.hfile", b"h")
    defined = {name: {"indexName": name, "version": "V2"} for name in (*names, "column_stats")}
    body = json.dumps({"indexDefinitions": defined}).encode()
    table.store.put(INDEX_DEFINITIONS_PATH, body)
    return table


def defined(small: SmallTable) -> list[str]:
    body = small.store().get(INDEX_DEFINITIONS_PATH)
    return sorted(json.loads(body)["indexDefinitions"])


INDEXES = ("expr_index_upper", "secondary_index_v")


@pytest.mark.parametrize("options", [{}, OFF], ids=["dropped", "switched off"])
def test_definitions_that_queries_believe_go_with_their_partitions(
    small: SmallTable, options: dict[str, str]
) -> None:
    with_indexes(small, *INDEXES)
    notes = small.write("upsert", batch([1], 2), options=options).notes
    assert any("expr_index_upper" in note or "switched off" in note for note in notes)
    assert not {*INDEXES}.intersection(opened(small).config.metadata_partitions_in_work)
    assert defined(small) == ["column_stats"]
    left = {info.path for info in small.store().list(METADATA_TABLE_PATH)}
    assert not any(name in path for name in INDEXES for path in left)
    assert not any("index" in finding.message for finding in check_table(opened(small)))


def test_a_death_while_they_are_dropped_leaves_none_that_is_believed(small: SmallTable) -> None:
    with_indexes(small, *INDEXES)
    for writes in range(1, 40):
        table = open_table(
            small.location,
            small.clock,
            FaultyStore(small.store(), FaultPlan(crash_after_write=writes)),
        )
        try:
            with table.lock().acquire():
                _drop_others(table, (FILES,), unguarded)
        except SimulatedCrash:
            listed = set(opened(small).config.metadata_partitions)
            assert set(defined(small)) - {"column_stats"} <= listed
            with_indexes(small, *INDEXES)
            continue
        break
    else:
        pytest.fail("every attempt died")
    assert writes > 2
    assert is_kept(small)


def of_files(name: str) -> dict[MetadataPartition, tuple[MetadataRecord, ...]]:
    """A record of `files` with one file."""
    return {FILES_PARTITION: (FilesRecord("p0", {name: FileState(5)}).stored(),)}


def index_build(small: SmallTable, state: State) -> Instant:
    table = opened(small)
    requested = Instant(InstantTime("20990101000000000"), Action.INDEXING, State.REQUESTED)
    table.store.put(table.timelines.path(requested), b"")
    instant = requested.in_state(state)
    table.store.put(table.timelines.path(instant), b"")
    return instant


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "off"])
def test_a_commit_while_hudi_builds_an_index_is_a_conflict(small: SmallTable, kept: bool) -> None:
    if not kept:
        small.write("upsert", batch([0], 2), options=OFF)
    rows = small.rows()
    instant = index_build(small, State.INFLIGHT)
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        small.write("upsert", batch([1], 3))
    assert small.rows() == rows
    table = opened(small)
    assert [candidate.action for candidate in table.timeline().pending()] == [Action.INDEXING]
    table.store.delete(table.timelines.path(instant))
    # One that is only requested reads what is there when it begins.
    small.write("upsert", batch([1], 3))
    assert small.rows() != rows


BUILT = "expr_index_other"


def planned(
    small: SmallTable, name: str, age_s: float = DEFAULT_LIMITS.silent_s_max + 1
) -> Instant:
    """A build of an index that began so long ago."""
    instant = index_build(small, State.INFLIGHT)
    table = opened(small)
    table.store.put(table.timelines.path(instant.in_state(State.REQUESTED)), index_plan([name]))
    small.fake_clock.advance(age_s)
    return instant


def test_a_build_that_failed_stops_no_commit_for_good(small: SmallTable) -> None:
    # A young one may be alive, whatever is there of it.
    planned(small, BUILT, DEFAULT_LIMITS.silent_s_max - 60)
    with pytest.raises(ConflictError, match="10 minutes after its start"):
        small.write("upsert", batch([1], 3))
    small.fake_clock.advance(61)
    small.write("upsert", batch([1], 3))
    assert is_kept(small)


def test_a_build_that_failed_is_told_from_a_later_one_of_its_name(small: SmallTable) -> None:
    with_indexes(small, BUILT)
    planned(small, BUILT)
    # Hudi lists what it builds before it adds the commits that came meanwhile.
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        small.write("upsert", batch([1], 3))
    later = InstantTime("20990102000000000")
    put_index_build(opened(small), [BUILT], later, state=State.COMPLETED)
    small.write("upsert", batch([1], 3))
    assert is_kept(small)
    assert defined(small) == ["column_stats"]
    # The instant of the one that failed went, that of the other is archived some day.
    assert [instant.state for instant in opened(small).timeline().of(Action.INDEXING)] == [
        State.COMPLETED
    ]
    small.write("upsert", batch([1], 4))


@pytest.mark.parametrize(
    "sign", ["definition", "folder", "property", "listed property", "plan", "kind"]
)
def test_a_build_of_which_anything_is_there_is_waited_for(small: SmallTable, sign: str) -> None:
    table = opened(small)
    instant = planned(small, BUILT if sign != "kind" else "record_index")
    if sign == "definition":
        table.store.put(
            INDEX_DEFINITIONS_PATH, json.dumps({"indexDefinitions": {BUILT: {}}}).encode()
        )
    elif sign == "folder":
        table.store.put(f"{METADATA_TABLE_PATH}/{BUILT}/{BUILT}-0000-0_0-0-0.hfile", b"h")
    elif sign == "property":
        table.properties.update({METADATA_PARTITIONS_INFLIGHT: BUILT})
    elif sign == "listed property":
        # Hudi adds the commits that came while it built.
        with_indexes(small, BUILT).properties.update({METADATA_PARTITIONS_INFLIGHT: BUILT})
    elif sign == "plan":
        table.store.put(table.timelines.path(instant.in_state(State.REQUESTED)), b"no plan")
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        small.write("upsert", batch([1], 3))


def test_the_remedy_of_a_build_that_died_is_named(small: SmallTable) -> None:
    instant = planned(small, BUILT, 0)
    with pytest.raises(ConflictError, match="or drop the index with Hudi"):
        small.write("upsert", batch([1], 3))
    planned(small, "record_index")
    with pytest.raises(ConflictError, match="tideline index drop record_index --end-build"):
        small.write("upsert", batch([1], 3))
    table = opened(small)
    paths = [
        table.timelines.path(instant.in_state(state)) for state in (State.INFLIGHT, State.REQUESTED)
    ]
    table.store.put(paths[1], b"no plan")
    with pytest.raises(ConflictError, match=f"delete {' and '.join(paths)}"):
        small.write("upsert", batch([1], 3))
    for path in paths:
        table.store.delete(path)
    small.write("upsert", batch([1], 3))
    assert is_kept(small)


def test_a_restore_while_hudi_builds_an_index_is_a_conflict(small: SmallTable) -> None:
    saved = small.lake().savepoint()
    small.write("upsert", batch([1], 3))
    rows = small.rows()
    index_build(small, State.INFLIGHT)
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        small.lake().restore(str(saved.instant))
    assert small.rows() == rows
    assert is_kept(small)
    assert [instant.action for instant in opened(small).timeline().pending()] == [Action.INDEXING]


def test_a_rollback_that_switches_it_off_waits_for_the_index(small: SmallTable) -> None:
    """A compaction has taken in what a dead writer committed there."""
    table = opened(small)
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    died = table.timelines.to_inflight(pending)
    completed = pending.in_state(State.COMPLETED, table.instants.next_time())
    gone = of_files(f"x_0-0-0_{died.time}.parquet")
    writer, metadata = MetadataWriter(table), MetadataTable(table.store, small.clock)
    writer.commit(completed, gone, table.timeline())
    timeline = metadata.timeline()
    stored: dict[MetadataPartition, StoredPartition] = {}
    stored[FILES_PARTITION] = metadata.stored(FILES_PARTITION, timeline)
    now = table.instants.next_time()
    by_slice = metadata.form.logs_name_slice
    at = InstantTime(f"{died.time}001") if by_slice else now
    writer._compact(stored, timeline, at, now, by=now)
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 1)
    building = index_build(small, State.INFLIGHT)
    listed = opened(small).config.metadata_partitions
    for _ in range(2):
        with pytest.raises(ConflictError, match="Hudi builds an index"):
            small.lake().recover()
        assert opened(small).config.metadata_partitions == listed
        assert list(table.store.list(METADATA_TABLE_PATH))
        assert opened(small).timeline().find(died.time) is not None
    table.store.delete(table.timelines.path(building))
    assert [rolled_back.instant for rolled_back in small.lake().recover()] == [died.time]
    assert opened(small).config.metadata_partitions == ()


def test_a_rollback_that_takes_nothing_from_the_index_is_done(small: SmallTable) -> None:
    table = opened(small)
    pending = table.timelines.create_requested(table.instants.next_time(), Action.DELTACOMMIT)
    died = table.timelines.to_inflight(pending)
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 1)
    index_build(small, State.INFLIGHT)
    assert [rolled_back.instant for rolled_back in small.lake().recover()] == [died.time]
    assert is_kept(small)


def test_a_repair_while_hudi_builds_an_index_is_a_conflict(small: SmallTable) -> None:
    index_build(small, State.INFLIGHT)
    table = opened(small)
    with pytest.raises(ConflictError, match="Hudi builds an index"):
        bootstrap_metadata_table(table, table.timeline())
    assert is_kept(small)


def test_check_compares_lists_folders_and_definitions(small: SmallTable) -> None:
    table = with_indexes(small, *INDEXES)
    table.store.delete(f"{METADATA_TABLE_PATH}/{INDEXES[0]}/{INDEXES[0]}-0000-0_0-0-0.hfile")
    table.properties.update({METADATA_PARTITIONS: f"{FILES},{INDEXES[0]}"})
    errors = [
        finding for finding in check_table(opened(small)) if finding.severity is Severity.ERROR
    ]
    assert [error.message.split(":")[0] for error in errors] == [
        "expr_index_upper is listed, and has no folder",
        "the index secondary_index_v is defined, and the metadata table does not list it",
    ]
    repair_table(opened(small), FAILED)
    assert not [
        finding for finding in check_table(opened(small)) if finding.severity is Severity.ERROR
    ]
    assert is_kept(small)


@pytest.mark.parametrize("version", [6, 8])
def test_a_metadata_table_of_another_version_is_kept_where_its_form_is_the_same(
    version: int,
) -> None:
    """Hudi makes one of version 8 for a table of version 9."""
    small = SmallTable.in_memory({"hoodie.metadata.enable": "true"}, table_version=9)
    small.write("insert", batch(range(3), 1))
    small.lake().indexes({}).create("record_index")
    metadata = MetadataTable(small.store(), small.clock)
    changed = {
        **metadata.config.properties,
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": "1" if version == 6 else "2",
    }
    metadata.store.put(PROPERTIES_PATH, format_properties(changed, updated_at_ms=0))
    report = small.write("upsert", batch([1], 2))
    table = opened(small)
    kept = (FILES, "record_index")
    assert (table.config.metadata_partitions == kept) == (version == 8), report.notes
    assert stale_listing(table) == []
    small.forget()
