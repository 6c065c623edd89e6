"""Moving instants through their states in a store, alone and against other writers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tideline.clock import SystemClock
from tideline.errors import ConflictError, CorruptTableError, ObjectNotFoundError
from tideline.hudi.timeline.active import LISTING_MARGIN_MS, TimelineStore
from tideline.hudi.timeline.commit_metadata import CommitMetadata, WriteStat
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout_v1 import LAYOUT_V1
from tideline.storage.local.store import LocalStore
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import Listing, ObjectInfo, ObjectStore
from tideline.testing.fixtures import fixture_table

T = InstantTime("20250922132154428")
METADATA = CommitMetadata({"p": (WriteStat(file_id="f", path="p/f.parquet"),)}, "UPSERT")


class ClockAt:
    """A clock that stands still."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here sleeps, least of all {seconds} s")


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "local":
        yield LocalStore(str(tmp_path))
    else:
        name = uuid4().hex
        yield MemoryStore(name)
        MemoryStore.forget(name)


@pytest.fixture
def timelines(store: ObjectStore) -> TimelineStore:
    return TimelineStore(store, LAYOUT_V1, SystemClock())


def names(store: ObjectStore) -> list[str]:
    return sorted(item.path for item in store.list(".hoodie"))


def test_a_commit_leaves_the_three_files_of_hudi(
    store: ObjectStore, timelines: TimelineStore
) -> None:
    requested = timelines.create_requested(T, Action.COMMIT)
    inflight = timelines.to_inflight(requested, METADATA.encode())
    completed = timelines.complete(inflight, METADATA.encode())
    assert completed == Instant(T, Action.COMMIT, State.COMPLETED)
    assert names(store) == [
        f".hoodie/{T}.commit",
        f".hoodie/{T}.commit.requested",
        f".hoodie/{T}.inflight",
    ]
    assert timelines.load().instants == (completed,)
    assert timelines.read(requested) == b""
    assert timelines.read_commit(completed) == METADATA


def test_each_state_is_what_a_reader_sees_until_the_next(timelines: TimelineStore) -> None:
    requested = timelines.create_requested(T, Action.DELTACOMMIT)
    assert timelines.load().instants == (requested,)
    inflight = timelines.to_inflight(requested)
    assert timelines.load().instants == (inflight,)
    assert not timelines.load().is_committed(T)
    timelines.complete(inflight, METADATA.encode())
    assert timelines.load().is_committed(T)


def test_a_compaction_completes_as_a_commit(timelines: TimelineStore) -> None:
    inflight = timelines.to_inflight(timelines.create_requested(T, Action.COMPACTION, b"plan"))
    completed = timelines.complete(inflight, METADATA.encode())
    assert completed == Instant(T, Action.COMMIT, State.COMPLETED)
    assert timelines.load().instants == (completed,)


def test_a_savepoint_begins_inflight(store: ObjectStore, timelines: TimelineStore) -> None:
    inflight = timelines.to_inflight(Instant(T, Action.SAVEPOINT, State.REQUESTED))
    timelines.complete(inflight, b"savepoint")
    assert names(store) == [f".hoodie/{T}.savepoint", f".hoodie/{T}.savepoint.inflight"]


def test_of_two_writers_one_gets_the_instant(store: ObjectStore) -> None:
    ours, theirs = (TimelineStore(store, LAYOUT_V1, SystemClock()) for _ in range(2))
    ours.create_requested(T, Action.COMMIT)
    with pytest.raises(ConflictError) as conflict:
        theirs.create_requested(T, Action.COMMIT)
    assert conflict.value.path == f".hoodie/{T}.commit.requested"
    assert str(T) in str(conflict.value)
    assert store.uri in str(conflict.value)


def test_no_state_is_reached_twice(timelines: TimelineStore) -> None:
    requested = timelines.create_requested(T, Action.COMMIT)
    inflight = timelines.to_inflight(requested)
    with pytest.raises(ConflictError, match=str(T)):
        timelines.to_inflight(requested)
    timelines.complete(inflight, b"{}")
    with pytest.raises(ConflictError, match=str(T)):
        timelines.complete(inflight, METADATA.encode())
    assert timelines.read_commit(inflight.in_state(State.COMPLETED)) == CommitMetadata()


def test_a_rolled_back_instant_goes_no_further(
    store: ObjectStore, timelines: TimelineStore
) -> None:
    requested = timelines.create_requested(T, Action.COMMIT)
    inflight = timelines.to_inflight(requested)
    timelines.remove(inflight)
    with pytest.raises(ConflictError, match="rolled back by another process"):
        timelines.complete(inflight, METADATA.encode())
    timelines.remove(requested)
    with pytest.raises(ConflictError, match="rolled back by another process"):
        timelines.to_inflight(requested)
    assert names(store) == []


def test_removing_what_is_gone_is_fine(timelines: TimelineStore) -> None:
    timelines.remove(Instant(T, Action.COMMIT, State.INFLIGHT))
    with pytest.raises(ObjectNotFoundError):
        timelines.read(Instant(T, Action.COMMIT, State.INFLIGHT))


def test_a_retry_with_the_same_token_owns_what_it_made() -> None:
    store = MemoryStore(uuid4().hex)
    timelines = TimelineStore(store, LAYOUT_V1, SystemClock())
    for _ in range(2):
        requested = timelines.create_requested(T, Action.COMMIT, token="attempt-1")
    for _ in range(2):
        inflight = timelines.to_inflight(requested, token="attempt-1")
    for _ in range(2):
        completed = timelines.complete(inflight, METADATA.encode(), token="attempt-1")
    assert timelines.load().instants == (completed,)
    with pytest.raises(ConflictError):
        timelines.complete(inflight, METADATA.encode(), token="attempt-2")


def test_files_that_are_no_instants_are_passed_over(
    store: ObjectStore, timelines: TimelineStore
) -> None:
    for name in ("hoodie.properties", f".{T}.commit.crc", f"archived/{T}.commit", ".temp/x/y"):
        store.put(f".hoodie/{name}", b"")
    assert len(timelines.load()) == 0


def test_a_table_without_timeline_is_empty(timelines: TimelineStore) -> None:
    assert len(timelines.load()) == 0


def test_a_truncated_commit_is_named(timelines: TimelineStore, store: ObjectStore) -> None:
    store.put(f".hoodie/{T}.commit", METADATA.encode()[:-20])
    with pytest.raises(CorruptTableError) as corrupt:
        timelines.read_commit(Instant(T, Action.COMMIT, State.COMPLETED))
    assert corrupt.value.path == f".hoodie/{T}.commit"
    assert str(T) in str(corrupt.value)


def test_a_timeline_knows_when_its_objects_were_made(store: ObjectStore) -> None:
    timelines = TimelineStore(store, LAYOUT_V1, SystemClock())
    before_ms = time.time_ns() // 1_000_000
    requested = timelines.create_requested(T, Action.COMMIT)
    inflight = timelines.to_inflight(requested)
    loaded = timelines.load()
    assert set(loaded.made_ms) == {requested, inflight}
    assert abs(loaded.made_ms[requested] - before_ms) < 60_000
    assert loaded.pending().made_ms == loaded.made_ms


@pytest.mark.fixtures
def test_a_real_timeline_loads_and_every_commit_of_it_reads() -> None:
    table = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"
    timelines = TimelineStore(LocalStore(str(fixture_table(table))), LAYOUT_V1, SystemClock())
    commits = timelines.load().writes().completed()
    assert len(commits) == 7
    assert [timelines.read_commit(item).operation_type for item in commits] == [
        "UPSERT",
        "INSERT",
        "INSERT",
        "COMPACT",
        "CLUSTER",
        "INSERT",
        "DELETE",
    ]


def test_the_timeline_needs_neither_arrow_nor_spark() -> None:
    """Cleaning and rollback run from the base install."""
    program = (
        "import sys, tideline.hudi.timeline.active, tideline.formats.avro;"
        "import tideline.hudi.timeline.layout_v1;"
        "print(sorted({'numpy', 'pandas', 'pyarrow', 'pyspark'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


class BusyFolder:
    """A store whose listings are taken while others create objects: each answer is one of them."""

    uri = "memory://busy"

    def __init__(self, *answers: list[str], modified_ms: int) -> None:
        self._answers = list(answers)
        self._modified_ms = modified_ms
        self.directories: tuple[str, ...] = ()
        self.asked = 0

    def list_directory(self, path: str) -> Listing:
        names = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        objects = tuple(ObjectInfo(f"{path}/{name}", 0, self._modified_ms, None) for name in names)
        return Listing(objects, self.directories)


BEGUN = ["20250922132154428.replacecommit.requested", "20250922132154428.replacecommit.inflight"]
CLUSTERED = "20250922132154428.replacecommit"
BUILT_ON_IT = "20250922132159000.deltacommit"
NOW_MS = 1_800_000_000_000


def test_a_commit_is_never_seen_without_the_one_it_was_built_on() -> None:
    """The listing passed the place of the older one before that was completed."""
    torn = [*BEGUN, BUILT_ON_IT]
    folder = BusyFolder(torn, [*torn, CLUSTERED], modified_ms=NOW_MS - 100)
    loaded = TimelineStore(folder, LAYOUT_V1, ClockAt(NOW_MS)).load()  # type: ignore[arg-type]
    assert [str(instant.time) for instant in loaded.completed()] == [
        CLUSTERED[:17],
        BUILT_ON_IT[:17],
    ]
    assert folder.asked == 3


def test_a_timeline_with_nothing_new_in_it_is_listed_once() -> None:
    folder = BusyFolder([*BEGUN, CLUSTERED], modified_ms=NOW_MS - LISTING_MARGIN_MS - 1)
    TimelineStore(folder, LAYOUT_V1, ClockAt(NOW_MS)).load()  # type: ignore[arg-type]
    assert folder.asked == 1


def test_archived_commits_are_no_hole_in_a_long_listing() -> None:
    """It had passed the first ones when they were archived, and came to the others afterwards."""
    names = [f"{20250922132154428 + number}.commit" for number in range(900)]
    folder = BusyFolder(names[:500] + names[700:], names[700:], modified_ms=NOW_MS - 86_400_000)
    folder.directories = (".hoodie/archived",)
    loaded = TimelineStore(folder, LAYOUT_V1, ClockAt(NOW_MS)).load()  # type: ignore[arg-type]
    missing = [name for name in names if not loaded.is_committed(InstantTime(name[:17]))]
    assert not missing


class CountedListings(MemoryStore):
    """Counts its listings; what `meanwhile` makes, the next one shows and was not there before."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked = 0
        self.meanwhile: list[str] = []

    def list_directory(self, prefix: str = "") -> Listing:
        self.asked += 1
        while self.meanwhile:
            self.put(f"{prefix}/{self.meanwhile.pop()}", b"")
        return super().list_directory(prefix)


def test_what_was_listed_or_made_before_is_listed_once() -> None:
    """Two listings show that what is new was there together; one does of what stood before it."""
    store = CountedListings("listed")
    timelines, others = (TimelineStore(store, LAYOUT_V1, SystemClock()) for _ in range(2))

    def asked(own: InstantTime | None = None) -> int:
        store.asked = 0
        timelines.load(own)
        return store.asked

    others.create_requested(InstantTime.parse("20250922132154428"), Action.COMMIT)
    assert (asked(), asked()) == (2, 1)
    own = timelines.create_requested(InstantTime.parse("20250922132154429"), Action.COMMIT)
    assert asked() == 1
    timelines.complete(timelines.to_inflight(own), b"{}")
    assert asked() == 1
    timelines.remove(own.in_state(State.REQUESTED))
    assert asked() == 1
    theirs = others.create_requested(InstantTime.parse("20250922132154430"), Action.COMMIT)
    assert asked(theirs.time) == 1, "the caller says that it made this one"
    others.remove(theirs)
    assert (asked(), asked()) == (2, 1)
    store.meanwhile = [BUILT_ON_IT]
    assert (asked(), asked()) == (2, 1), "made while it was listed"
