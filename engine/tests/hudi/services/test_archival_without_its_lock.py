"""Archival of a process that lost the lock, or beside an engine that takes none: a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tideline.errors import ConflictError, ObjectNotFoundError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import archive_table, execute_archival
from tideline.hudi.services.archival.metadata_archival import archive_metadata_table
from tideline.hudi.timeline.instant import Instant
from tideline.lock_timing import LockTiming
from tideline.storage.object_store import ObjectStore, Written
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.small_table import COMPACTED_OFTEN, SmallTable, batch
from tideline.testing.table_audit import open_fresh

CONFIG = ArchivalConfig(commits_min=2, commits_max=3)
TIMING = LockTiming(validity_s=60.0, renew_interval_s=10_000.0)
"""Nothing is renewed within a test."""
COMPLETED = ".commit"


class PausedStore(FaultyStore):
    """A store whose client is paused once, before a request for a path that `where` chooses."""

    def __init__(
        self, inner: ObjectStore, where: Callable[[str, str], bool], pause: Callable[[], None]
    ) -> None:
        super().__init__(inner)
        self._where = where
        self._pause: Callable[[], None] | None = pause

    def get(self, path: str) -> bytes:
        self._meet("get", path)
        return super().get(path)

    def delete(self, path: str) -> None:
        self._meet("delete", path)
        super().delete(path)

    def put(self, path: str, body: bytes) -> Written:
        written = super().put(path, body)
        self._meet("put", path)
        return written

    def _meet(self, verb: str, path: str) -> None:
        pause = self._pause
        if pause is not None and self._where(verb, path):
            self._pause = None
            pause()


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_version=request.param)
    for version in range(1, 7):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    yield table
    table.forget()


def archive(table: SmallTable, store: ObjectStore | None = None) -> tuple[Instant, ...]:
    opened = open_fresh(table.location, store, table.clock)
    return archive_table(opened, CONFIG, lock_timing=TIMING).instants


def archived(table: SmallTable) -> list[str]:
    history = open_fresh(table.location, clock=table.clock).commits.archive()
    return [str(entry.instant.time) for entry in history.commits()]


def instants(table: SmallTable) -> list[str]:
    return [str(item.time) for item in open_fresh(table.location, clock=table.clock).timeline()]


def while_another_archives(table: SmallTable) -> None:
    """The lease ends, and another process archives all that is due."""
    table.fake_clock.advance(TIMING.validity_s + 1)
    assert archive(table)


def reads_instant(number: int, times: list[str]) -> Callable[[str, str], bool]:
    return lambda verb, path: verb == "get" and f"/{times[number]}" in path


@pytest.mark.parametrize("number", [0, 3], ids=["at its first", "at its last"])
def test_a_lock_that_is_lost_while_it_reads_instants_is_a_conflict(
    table: SmallTable, number: int
) -> None:
    times, rows = instants(table), table.values()
    store = PausedStore(
        table.store(), reads_instant(number, times), lambda: while_another_archives(table)
    )
    with pytest.raises(ConflictError, match="ran out during archival; run archival again") as lost:
        archive(table, store)
    assert lost.value.table == table.location.uri
    assert sorted(archived(table)) == times[:4], "each once"
    assert (instants(table), table.values()) == (times[4:], rows)
    assert archive(table) == (), "the next run finds nothing due"


def test_what_it_read_before_it_lost_the_lock_is_not_archived_again(table: SmallTable) -> None:
    """The last body is read, and another process has archived all before the file is written."""
    times = instants(table)

    def answered(verb: str, path: str) -> bool:
        return verb == "get" and f"/{times[3]}" in path and path.endswith(COMPLETED)

    class PausedAfter(PausedStore):
        def get(self, path: str) -> bytes:
            body = FaultyStore.get(self, path)
            self._meet("get", path)
            return body

    pauses: list[int] = []

    def pause() -> None:
        pauses.append(1)
        while_another_archives(table)

    with pytest.raises(ConflictError, match="run archival again"):
        archive(table, PausedAfter(table.store(), answered, pause))
    assert pauses
    assert sorted(archived(table)) == times[:4], "each once"
    assert instants(table) == times[4:]


def test_a_lock_that_is_lost_before_instants_are_deleted_deletes_none(table: SmallTable) -> None:
    """They are in the archive; the next run takes them out of the timeline."""
    times = instants(table)
    opened = open_fresh(table.location, clock=table.clock)
    asked: list[int] = []

    def guard() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise ConflictError("lost")

    with opened.lock(TIMING).acquire(timeout_s=0), pytest.raises(ConflictError, match="lost"):
        execute_archival(opened, CONFIG, guard=guard)
    assert sorted(archived(table)) == times[:4]
    assert instants(table) == times
    opened = open_fresh(table.location, clock=table.clock)
    assert [str(item.time) for item in archive_table(opened, CONFIG).resumed] == times[:4]
    assert instants(table) == times[4:]


def test_an_engine_that_takes_no_lock_is_named_by_the_instant_it_took(table: SmallTable) -> None:
    times = instants(table)

    def archive_without_lock() -> None:
        execute_archival(open_fresh(table.location, clock=table.clock), CONFIG)

    store = PausedStore(table.store(), reads_instant(2, times), archive_without_lock)
    with pytest.raises(ConflictError, match="took this instant out of the timeline") as lost:
        archive(table, store)
    assert times[2] in str(lost.value.instant)
    assert lost.value.exit_code == 3
    assert archive(table) == ()
    assert sorted(archived(table)) == times[:4]


def test_an_archive_file_that_is_missing_is_no_conflict() -> None:
    table = SmallTable.in_memory(table_version=9)
    for version in range(1, 7):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))
    store, newest = table.store(), instants(table)[3]
    left = {info.path: store.get(info.path) for info in store.list(".hoodie/timeline")}
    archive(table)
    (file,) = open_fresh(table.location, clock=table.clock).commits.archive().files()
    store.delete(file.path)
    for path, body in left.items():
        if newest in path:
            store.put(path, body)
    with pytest.raises(ObjectNotFoundError, match="no such object") as missing:
        archive(table)
    assert str(missing.value.path).endswith(file.path)
    table.forget()


def test_the_metadata_tables_archival_asks_for_the_lock_as_well() -> None:
    table = SmallTable.in_memory(COMPACTED_OFTEN, table_version=9)
    for version in range(1, 13):
        table.fake_clock.advance(60)
        table.write("upsert", batch(range(4), version))

    def guard() -> None:
        raise ConflictError("lost")

    opened = open_fresh(table.location, clock=table.clock)
    before = {info.path for info in table.store().list(".hoodie/metadata")}
    with opened.lock(TIMING).acquire(timeout_s=0), pytest.raises(ConflictError, match="lost"):
        archive_metadata_table(opened, CONFIG, guard)
    assert {info.path for info in table.store().list(".hoodie/metadata")} == before
    table.forget()
