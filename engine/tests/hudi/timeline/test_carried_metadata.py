"""What archived commits carried is found again, and the archive is read once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tideline.formats.archive_block import encode_archive_block
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.carried import REMEMBERED_PATH, read_carried
from tideline.storage.memory.store import MemoryStore
from tideline.testing.faulty_store import FaultyStore

PREFIX = "tideline.checkpoint."


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    yield MemoryStore("carried-metadata")
    MemoryStore.forget("carried-metadata")


def archive(store: MemoryStore, number: int, **generations: int) -> None:
    """One archive file with one commit that carries these checkpoints."""
    extra = {
        PREFIX + name: json.dumps({"generation": generation})
        for name, generation in generations.items()
    }
    entry = {
        "commitTime": f"20260101000000{number:03d}",
        "actionType": "commit",
        "actionState": "COMPLETED",
        "hoodieCommitMetadata": {"extraMetadata": {**extra, "schema": "{}"}},
    }
    store.put(ArchivedTimeline(store).path(number), encode_archive_block([entry]))


def generations(store: object, *, remembers: bool = False) -> dict[str, int]:
    archived = ArchivedTimeline(store)  # type: ignore[arg-type]
    found = read_carried(archived, PREFIX, remembers=remembers)
    return {key.removeprefix(PREFIX): json.loads(text)["generation"] for key, text in found.items()}


def test_the_highest_generation_counts_even_behind_a_later_copy(store: MemoryStore) -> None:
    archive(store, 1, a=1)
    archive(store, 2, a=2)
    archive(store, 3, a=1, b=1)
    archive(store, 4)
    assert generations(store) == {"a": 2, "b": 1}


def test_an_archive_that_was_read_once_is_not_read_again(store: MemoryStore) -> None:
    for number in range(1, 6):
        archive(store, number, a=number)
    generations(store, remembers=True)
    counting = FaultyStore(store)
    assert generations(counting, remembers=True) == {"a": 5}
    assert counting.calls == 2
    archive(store, 6, b=1)
    counting = FaultyStore(store)
    assert generations(counting, remembers=True) == {"a": 5, "b": 1}
    assert counting.calls == 4


def test_a_reader_writes_nothing(store: MemoryStore) -> None:
    archive(store, 1, a=1)
    counting = FaultyStore(store)
    assert generations(counting) == {"a": 1}
    assert counting.writes == ()


def test_an_unreadable_memory_is_rebuilt(store: MemoryStore) -> None:
    archive(store, 1, a=1)
    store.put(REMEMBERED_PATH, b'{"found": 3')
    assert generations(store, remembers=True) == {"a": 1}
    assert json.loads(store.get(REMEMBERED_PATH))["archive_number"] == 1
