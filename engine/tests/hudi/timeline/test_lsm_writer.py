"""Writing a history: what a reader sees after every write, and after a death before any of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tideline.errors import ConflictError
from tideline.hudi.timeline.archived import ArchiveFile
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import (
    DEFAULT_FOLDER,
    HeldHistory,
    LsmHistory,
    range_and_level,
)
from tideline.hudi.timeline.lsm_writer import (
    append_to_history,
    clean_history,
    files_to_merge,
    history_leftovers,
    merge_history,
    sweep_history,
)
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import Changed
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.stepping_store import Step, SteppingStore

FILES_PER_MERGE = 10
BYTES_MAX = 1_000_000
KEPT = 3

_names = itertools.count()


def at(number: int) -> InstantTime:
    return InstantTime(f"2026010100000{number:04d}")


def instant(number: int) -> Instant:
    return Instant(at(number), Action.COMMIT, State.COMPLETED, at(number + 500))


def row(number: int) -> dict[str, object]:
    return {
        "instantTime": str(at(number)),
        "completionTime": str(at(number + 500)),
        "action": "commit",
        "metadata": b"",
        "plan": f"plan {number}".encode(),
    }


def append(history: LsmHistory, *numbers: int) -> ArchiveFile:
    return append_to_history(history, [row(n) for n in numbers])


def archived(history: LsmHistory) -> list[Instant]:
    return sorted(entry.instant for entry in history.entries())


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    name = f"lsm-writer-{next(_names)}"
    yield MemoryStore(name)
    MemoryStore.forget(name)


@pytest.fixture
def history(store: MemoryStore) -> LsmHistory:
    return LsmHistory(store)


def test_what_is_appended_is_read(history: LsmHistory) -> None:
    append(history, 1, 2)
    append(history, 4)
    append(history, 3)
    assert archived(history) == [instant(n) for n in (1, 2, 3, 4)]
    assert history.manifest().number == 3
    found = history.completions_around(at(2))
    assert found == {at(1): at(501), at(2): at(502)}


def test_a_range_that_counts_already_is_not_written_again(
    history: LsmHistory, store: MemoryStore
) -> None:
    first = append(history, 1, 2)
    before = {info.path: store.get(info.path) for info in store.list()}
    assert append(history, 1, 2) == first
    assert {info.path: store.get(info.path) for info in store.list()} == before


def test_ten_files_of_a_level_become_one_of_the_next(history: LsmHistory) -> None:
    for number in range(FILES_PER_MERGE - 1):
        append(history, number)
    assert merge_history(history, files=FILES_PER_MERGE, bytes_max=BYTES_MAX) == ()
    append(history, FILES_PER_MERGE - 1)
    (merge,) = merge_history(history, files=FILES_PER_MERGE, bytes_max=BYTES_MAX)
    assert len(merge.replaced) == FILES_PER_MERGE
    assert range_and_level(merge.merged) == (at(0), at(FILES_PER_MERGE - 1), 1)
    assert history.manifest().files == (merge.merged,)
    assert archived(history) == [instant(n) for n in range(FILES_PER_MERGE)]
    rows = history.read(merge.merged).entries
    assert [row.record["instantTime"] for row in rows] == [
        str(at(n)) for n in range(FILES_PER_MERGE)
    ]


def test_what_a_dead_writer_left_is_swept(history: LsmHistory, store: MemoryStore) -> None:
    append(history, 1)
    before = {info.path for info in store.list()}
    append(history, 2)
    store.put(f"{history.directory}/_version_", b"1")
    left = {info.path for info in store.list()} - before
    assert len(left) == 2
    assert set(history_leftovers(history)) == left
    sweep_history(history)
    assert {info.path for info in store.list()} == before
    assert archived(history) == [instant(1)]


def test_a_hundred_files_become_one_of_the_level_after_that(history: LsmHistory) -> None:
    levels = []
    for number in range(FILES_PER_MERGE**2):
        append(history, number)
        levels += [
            range_and_level(entry.merged)[2]
            for entry in merge_history(history, files=FILES_PER_MERGE, bytes_max=BYTES_MAX)
        ]
    assert levels == [1] * FILES_PER_MERGE + [2]
    assert len(history.files()) == 1
    assert len(archived(history)) == FILES_PER_MERGE**2


def test_large_files_are_merged_as_far_as_they_may_be_read() -> None:
    def file(number: int, size_bytes: int) -> ArchiveFile:
        return ArchiveFile(number, f"{at(number)}_{at(number)}_0.parquet", size_bytes)

    half = BYTES_MAX // 2
    many = [file(n, half) for n in range(FILES_PER_MERGE)]
    limits = (FILES_PER_MERGE, BYTES_MAX)
    assert files_to_merge(many, 0, *limits) == tuple(many[:2])
    large = [file(n, BYTES_MAX) for n in range(FILES_PER_MERGE)]
    assert files_to_merge(large, 0, *limits) == ()
    assert files_to_merge(many, 1, *limits) == ()


def test_files_of_the_newest_manifests_are_kept(history: LsmHistory, store: MemoryStore) -> None:
    for number in range(FILES_PER_MERGE):
        append(history, number)
    merge_history(history, files=FILES_PER_MERGE, bytes_max=BYTES_MAX)
    append(history, 700)
    deleted = clean_history(history, kept=KEPT)
    # Manifest 10 still names the ten files, for readers that are two behind.
    assert sorted(path.rpartition("/")[2] for path in deleted) == sorted(
        f"manifest_{n}" for n in range(1, FILES_PER_MERGE)
    )
    append(history, 701)
    assert len(clean_history(history, kept=KEPT)) == FILES_PER_MERGE + 1
    left = {info.path for info in store.list()}
    assert len(left) == 3 + 3 + 1
    assert len(archived(history)) == FILES_PER_MERGE + 2
    assert clean_history(history, kept=KEPT) == ()


def prepared(store: MemoryStore) -> None:
    for number in range(FILES_PER_MERGE - 1):
        append(LsmHistory(store), number)


def run(history: LsmHistory) -> None:
    sweep_history(history)
    append(history, FILES_PER_MERGE)
    merge_history(history, files=FILES_PER_MERGE, bytes_max=BYTES_MAX)
    clean_history(history, kept=KEPT)


def deaths(act: Callable[[LsmHistory], None]) -> Iterator[MemoryStore]:
    """A store for each write or delete that `act` makes, whose process died before it."""
    for number in itertools.count(1):
        name = f"lsm-writer-{next(_names)}"
        store = MemoryStore(name)
        prepared(store)
        try:
            act(LsmHistory(FaultyStore(store, FaultPlan(crash_before_write=number))))
        except SimulatedCrash:
            yield store
        else:
            return
        finally:
            MemoryStore.forget(name)


def test_dying_before_any_write_hides_and_doubles_nothing() -> None:
    before = [instant(n) for n in range(FILES_PER_MERGE - 1)]
    after = [*before, instant(FILES_PER_MERGE)]
    died = 0
    for store in deaths(run):
        died += 1
        assert archived(LsmHistory(store)) in (before, after)
        run(LsmHistory(store))
        history = LsmHistory(store)
        assert archived(history) == after
        # A process that died after the merge appends to it what is in there already.
        assert {range_and_level(file)[2] for file in history.files()} in ({1}, {0, 1})
    assert died > 10


class LostReplies(MemoryStore):
    def put_if_match(self, path: str, body: bytes, *, version: str) -> Changed:
        super().put_if_match(path, body, version=version)
        return Changed()


def test_a_lost_reply_is_no_other_writer(store: MemoryStore, history: LsmHistory) -> None:
    append(history, 1)
    held = HeldHistory(LostReplies(store.uri.removeprefix("memory://")), DEFAULT_FOLDER)
    append(held, 2)
    append(held, 3)
    assert archived(history) == [instant(n) for n in (1, 2, 3)]


def archived_meanwhile(store: MemoryStore, write: int, numbers: range) -> bool:
    """Archive and merge as a process that sleeps before that write, while another archives these;
    whether it ended without a conflict."""
    steps = itertools.count(1)

    def sleep(step: Step) -> None:
        if not step.method.startswith(("put", "delete")) or next(steps) != write:
            return
        for number in numbers:
            other = HeldHistory(store, DEFAULT_FOLDER)
            sweep_history(other)
            append(other, number)
            clean_history(other, kept=1)

    try:
        run(HeldHistory(SteppingStore(store, sleep), DEFAULT_FOLDER))
    except ConflictError:
        return False
    return True


@pytest.mark.parametrize("count", [1, 6])
def test_a_writer_that_lost_the_lock_hides_nothing_that_the_next_one_archived(count: int) -> None:
    others = range(20, 20 + count)
    wanted = {instant(number) for number in (*range(FILES_PER_MERGE - 1), *others)}
    ended = []
    for write in range(1, 7):
        store = MemoryStore(f"lsm-writer-{next(_names)}")
        prepared(store)
        ended.append(archived_meanwhile(store, write, others))
        assert wanted <= set(archived(LsmHistory(store))), write
        MemoryStore.forget(store.uri.removeprefix("memory://"))
    assert ended == [False] * 6
