"""Layout 2: file names of instants, and back; commit metadata as Avro."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.clock import SystemClock
from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.hudi.timeline.active import TimelineStore
from tideline.hudi.timeline.commit_metadata import CommitMetadata, RuntimeStats, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v2 import LayoutV2
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fixtures import fixture_table

T = InstantTime("20250922140627028")
C = InstantTime("20250922140628520")
LAYOUT = LayoutV2()
V9 = "hudi-upgrade.mor-tables.hudi-v9-table-mor/data/hudi-v9-table-mor"

CANONICAL = [
    Instant(T, action, state, C if state is State.COMPLETED else None)
    for action in Action
    for state in State
    if (action, state) != (Action.SAVEPOINT, State.REQUESTED)
    and (state.is_pending or action.when_completed is action)
]


@pytest.mark.parametrize("instant", CANONICAL, ids=str)
def test_every_instant_parses_back_from_its_file_name(instant: Instant) -> None:
    assert LAYOUT.parse(LAYOUT.file_name(instant)) == instant


@given(st.from_regex(r"[0-9]{13,21}(_[0-9]{17})?\.[a-z.]{0,24}", fullmatch=True))
def test_what_parses_prints_as_the_same_name(file_name: str) -> None:
    try:
        instant = LAYOUT.parse(file_name)
    except UnsupportedTableError:
        return
    assert instant is None or LAYOUT.file_name(instant) == file_name


@pytest.mark.parametrize(
    ("file_name", "action", "state"),
    [
        (f"{T}.inflight", Action.COMMIT, State.INFLIGHT),
        (f"{T}_{C}.commit", Action.COMMIT, State.COMPLETED),
        (f"{T}.compaction.requested", Action.COMPACTION, State.REQUESTED),
        (f"{T}.clustering.inflight", Action.CLUSTERING, State.INFLIGHT),
        (f"{T}_{C}.replacecommit", Action.REPLACECOMMIT, State.COMPLETED),
        (f"{T}.savepoint.inflight", Action.SAVEPOINT, State.INFLIGHT),
        (f"00000000000001_{C}.deltacommit", Action.DELTACOMMIT, State.COMPLETED),
    ],
)
def test_names_are_those_of_hudi(file_name: str, action: Action, state: State) -> None:
    instant = LAYOUT.parse(file_name)
    assert instant is not None
    assert (instant.action, instant.state) == (action, state)
    assert instant.completed_at == (C if state is State.COMPLETED else None)


@pytest.mark.parametrize(
    "file_name",
    [
        "history", f"{T}", f"{T}_{C}", f"{T}_{C}.commit.requested", f"{T}_x.commit",
        f"{T}_{C}.compaction", f"x_{C}.commit", f".{T}_{C}.commit.crc", "_version_",
    ],
)  # fmt: skip
def test_other_names_are_no_instants(file_name: str) -> None:
    assert LAYOUT.parse(file_name) is None


def test_a_completed_instant_without_a_completion_time_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match="completion time") as caught:
        LAYOUT.parse(f"{T}.commit")
    assert f"{T}.commit" in str(caught.value)
    with pytest.raises(ConfigError, match="no completion time"):
        LAYOUT.file_name(Instant(T, Action.COMMIT, State.COMPLETED))


def test_an_instant_of_layout_1_counts_as_completed_when_it_was_requested() -> None:
    assert Instant(T, Action.COMMIT, State.COMPLETED).completed_at == T
    assert Instant(T, Action.COMMIT, State.INFLIGHT).completed_at is None


def test_an_empty_file_is_metadata_without_anything_in_it() -> None:
    assert LAYOUT.decode_commit(b"", CANONICAL[0]) == CommitMetadata()
    with pytest.raises(CorruptTableError) as caught:
        LAYOUT.decode_commit(b"{}", Instant(T, Action.COMMIT, State.COMPLETED, C))
    assert f"{T}_{C}.commit" in str(caught.value)


@pytest.fixture
def timelines() -> Iterator[TimelineStore]:
    yield TimelineStore(MemoryStore("layout-v2"), LAYOUT, SystemClock())
    MemoryStore.forget("layout-v2")


def test_an_instant_completes_at_the_time_it_is_given(timelines: TimelineStore) -> None:
    requested = timelines.create_requested(T, Action.CLUSTERING, b"plan")
    inflight = timelines.to_inflight(requested)
    with pytest.raises(ConfigError, match="no completion time is known"):
        timelines.complete(inflight, b"{}")
    completed = timelines.complete(inflight, b"", at=C)
    assert completed == Instant(T, Action.REPLACECOMMIT, State.COMPLETED, C)
    assert timelines.load().instants == (completed,)
    assert timelines.read_commit(completed) == CommitMetadata()
    assert timelines.store.head(f"{LAYOUT.directory}/{T}_{C}.replacecommit") is not None


def test_a_completed_instant_is_removed_without_its_time_being_known(
    timelines: TimelineStore,
) -> None:
    for time in (T, InstantTime("20250922140627999")):
        inflight = timelines.to_inflight(timelines.create_requested(time, Action.COMMIT))
        timelines.complete(inflight, b"", at=C)
    timelines.remove(Instant(T, Action.COMMIT, State.COMPLETED))
    first, second = timelines.load()
    assert (first.time, first.state) == (T, State.INFLIGHT)
    assert second.is_completed
    timelines.remove(Instant(T, Action.COMMIT, State.COMPLETED))


def test_commit_metadata_reads_back_as_it_was_written() -> None:
    base = WriteStat(
        "f-0", "p/f-0_0-1-2_1.parquet", prev_commit="null", num_writes=3, num_inserts=3
    )
    log = WriteStat("f-1", "p/.f-1_1.log.1_0-1-2", log_version=1, base_file="", log_files=("x",))
    timed = replace(base, runtime_stats=RuntimeStats(total_create_time=7), min_event_time=5)
    written = CommitMetadata.of_stats(
        [base, log, timed], operation_type="UPSERT", extra_metadata={"schema": "{}"}
    )
    replacing = replace(written, partition_to_replace_file_ids={"p": ("f-2",), "q": ()})
    completed = Instant(T, Action.REPLACECOMMIT, State.COMPLETED, C)
    for metadata in (written, replacing, CommitMetadata()):
        read = LAYOUT.decode_commit(LAYOUT.encode_commit(metadata), completed)
        assert without_unrecognised(read) == metadata


def without_unrecognised(metadata: CommitMetadata) -> CommitMetadata:
    stats = metadata.partition_to_write_stats.items()
    return replace(
        metadata,
        partition_to_write_stats={
            partition: tuple(replace(stat, unrecognised={}) for stat in found)
            for partition, found in stats
        },
    )


@pytest.mark.fixtures
def test_commits_of_hudi_are_decoded() -> None:
    folder = fixture_table(V9) / LAYOUT.directory
    completed = {
        instant: (folder / name.name).read_bytes()
        for name in folder.iterdir()
        if (instant := LAYOUT.parse(name.name)) is not None and instant.is_completed
    }
    (cluster,) = [candidate for candidate in completed if candidate.action is Action.REPLACECOMMIT]
    metadata = LAYOUT.decode_commit(completed[cluster], cluster)
    assert metadata.operation_type == "CLUSTER"
    assert metadata.partition_to_replace_file_ids
    delete = max(candidate for candidate in completed if candidate.action is Action.DELTACOMMIT)
    metadata = LAYOUT.decode_commit(completed[delete], delete)
    (stat,) = metadata.write_stats
    assert (metadata.operation_type, stat.num_deletes, stat.log_version) == ("DELETE", 1, 1)
    assert stat.prev_commit == str(delete.time)
    assert metadata.schema_json is not None
    assert None not in stat.unrecognised.values()
