"""Archives of several Hudi versions are read, newest first, each instant once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import CorruptTableError
from tideline.formats.archive_block import encode_archive_block
from tideline.hudi.timeline.archived import ArchivedTimeline, ArchiveFile
from tideline.hudi.timeline.instant import Action, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.fixtures import fixture_table

V6 = "hudi-upgrade.mor-tables.hudi-v6-table-mor/data/hudi-v6-table-mor"


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    yield MemoryStore("archived-timeline")
    MemoryStore.forget("archived-timeline")


def put(store: MemoryStore, number: int, *entries: tuple[int, str, str]) -> str:
    path = ArchivedTimeline(store).path(number)
    records = [
        {"commitTime": str(at(time)), "actionType": action, "actionState": state}
        for time, action, state in entries
    ]
    store.put(path, encode_archive_block(records))
    return path


def at(number: int) -> InstantTime:
    return InstantTime(f"20260101000000{number:03d}")


@pytest.mark.fixtures
def test_an_archive_of_hudi_014_is_read_with_all_its_states() -> None:
    archived = ArchivedTimeline(StoreLocation.of(fixture_table(V6)).open())
    entries = list(archived.entries())
    assert len(entries) == 15
    times = [entry.instant.time for entry in archived.completed()]
    assert times == sorted(times, reverse=True)
    newest = next(archived.commits())
    metadata = newest.commit_metadata()
    assert (newest.instant.action, metadata.operation_type) == (Action.REPLACECOMMIT, "CLUSTER")
    replaced = metadata.partition_to_replace_file_ids or {}
    assert sorted(map(len, replaced.values())) == [1, 2]
    assert metadata.schema_json is not None
    plans = [entry for entry in entries if entry.instant.action is Action.COMPACTION]
    assert plans[-1].record["hoodieCompactionPlan"]["operations"]


@pytest.mark.fixtures
def test_archives_of_older_hudis_are_read(store: MemoryStore) -> None:
    folder = fixture_table("hudi-common.archivecommits/data/archivecommits")
    for number in (1, 681):
        body = (folder / f".commits_.archive.{number}_1-0-1").read_bytes()
        store.put(ArchivedTimeline(store).path(number), body)
    archived = ArchivedTimeline(store)
    assert [file.number for file in archived.files()] == [681, 1]
    oldest = min(entry.instant for entry in archived.commits())
    assert oldest.time == InstantTime("20220630183338")
    commits = [entry.commit_metadata() for entry in archived.commits()]
    assert all(metadata.operation_type for metadata in commits)
    assert sum(len(metadata.write_stats) for metadata in commits) > 0


def test_only_archive_files_count_and_numbers_are_numbers(store: MemoryStore) -> None:
    paths = [put(store, number, (number, "commit", "COMPLETED")) for number in (9, 10, 2)]
    for name in ("..commits_.archive.3_1-0-1.crc", "mergeArchivePlan", ".commits_.archive.x"):
        store.put(f".hoodie/archived/{name}", b"")
    files = ArchivedTimeline(store).files()
    assert [file.number for file in files] == [10, 9, 2]
    assert {file.path for file in files} == set(paths)


def test_instants_that_two_files_hold_are_given_once(store: MemoryStore) -> None:
    put(store, 1, (1, "commit", "REQUESTED"), (1, "commit", "COMPLETED"))
    put(store, 2, (1, "commit", "COMPLETED"), (2, "clean", "COMPLETED"))
    archived = ArchivedTimeline(store)
    assert [entry.instant.time for entry in archived.completed()] == [at(2), at(1)]
    assert len(list(archived.entries())) == 3


def test_nothing_is_read_before_it_is_needed(store: MemoryStore) -> None:
    for number in range(1, 50):
        put(store, number, (number, "commit", "COMPLETED"))
    counting = FaultyStore(store)
    archived = ArchivedTimeline(counting)
    assert counting.calls == 0
    assert next(archived.commits()).instant.time == at(49)
    assert counting.calls == 2
    assert set(archived.find(frozenset({at(47)}))) == {at(47)}
    assert counting.calls == 6


def test_files_that_merging_removes_concurrently_lose_nothing(store: MemoryStore) -> None:
    small = [put(store, number, (number, "commit", "COMPLETED")) for number in (1, 2, 3)]
    entries = ArchivedTimeline(store).commits()
    seen = [next(entries).instant.time]
    put(store, 4, *((number, "commit", "COMPLETED") for number in (1, 2, 3)))
    for path in small:
        store.delete(path)
    seen += [entry.instant.time for entry in entries]
    assert seen == [at(3), at(2), at(1)]


def test_a_cut_file_gives_what_is_whole_and_names_the_damage(store: MemoryStore) -> None:
    path = put(store, 1, (1, "commit", "COMPLETED"))
    whole = store.get(path)
    store.put(path, whole + whole[:-7])
    content = ArchivedTimeline(store).read(ArchiveFile(1, path, 0))
    assert [entry.instant.state for entry in content.entries] == [State.COMPLETED]
    assert len(content.damaged) == 1


def test_an_instant_that_is_not_understood_is_named_with_its_file(store: MemoryStore) -> None:
    path = put(store, 1, (1, "shuffle", "COMPLETED"))
    with pytest.raises(CorruptTableError, match="not understood") as caught:
        list(ArchivedTimeline(store).entries())
    assert path in str(caught.value)
    assert "shuffle" in str(caught.value)
