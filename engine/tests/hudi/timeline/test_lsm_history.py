"""The archived timeline of layout 2: what its manifest names is read, newest first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import LsmHistory
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fixtures import fixture_table

V9 = "hudi-upgrade.mor-tables.hudi-v9-table-mor/data/hudi-v9-table-mor"
FOLDER = ".hoodie/timeline/history"
Row = tuple[int, int, str]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    yield MemoryStore("lsm-history")
    MemoryStore.forget("lsm-history")


def at(number: int) -> InstantTime:
    return InstantTime(f"20260101000000{number:03d}")


def put(store: MemoryStore, *rows: Row, level: int = 0) -> dict[str, object]:
    """One file of rows (requested, completed, action); how a manifest names it."""
    times = [at(requested).value for requested, _, _ in rows]
    table = pa.table(
        {
            "instantTime": times,
            "completionTime": [at(completed).value for _, completed, _ in rows],
            "action": [action for _, _, action in rows],
            "metadata": pa.array([None] * len(rows), pa.binary()),
            "plan": pa.array([None] * len(rows), pa.binary()),
            "version": pa.array([1] * len(rows), pa.int32()),
        }
    )
    sink = BytesIO()
    pq.write_table(table, sink)
    name = f"{min(times)}_{max(times)}_{level}.parquet"
    store.put(f"{FOLDER}/{name}", sink.getvalue())
    return {"fileName": name, "fileLen": sink.tell()}


def publish(store: MemoryStore, number: int, *files: dict[str, object]) -> None:
    store.put(f"{FOLDER}/manifest_{number}", json.dumps({"files": files}).encode())
    store.put(f"{FOLDER}/_version_", str(number).encode())


def test_a_table_without_a_history_has_none(store: MemoryStore) -> None:
    history = LsmHistory(store)
    assert history.files() == ()
    assert list(history.entries()) == []
    assert history.completions_around(at(1)) == {}


def test_the_newest_manifest_says_which_files_count(store: MemoryStore) -> None:
    first, second = put(store, (1, 2, "commit")), put(store, (3, 4, "clean"), (5, 9, "deltacommit"))
    put(store, (7, 8, "commit"))
    publish(store, 1, first)
    publish(store, 2, first, second)
    history = LsmHistory(store)
    assert [str(entry.instant.time)[-3:] for entry in history.entries()] == ["005", "003", "001"]
    found = history.find(frozenset({at(1), at(3), at(5)}))
    assert {time: entry.instant.completed_at for time, entry in found.items()} == {
        at(1): at(2),
        at(5): at(9),
    }
    assert found[at(1)].commit_metadata() == CommitMetadata()
    store.delete(f"{FOLDER}/_version_")
    assert len(history.files()) == 2


def test_completion_times_are_read_from_the_files_around_an_instant(store: MemoryStore) -> None:
    publish(
        store,
        1,
        put(store, (1, 2, "commit"), (3, 20, "deltacommit"), (4, 5, "rollback")),
        put(store, (10, 11, "replacecommit"), level=1),
    )
    history = LsmHistory(store)
    assert history.completions_around(at(3)) == {at(1): at(2), at(3): at(20)}
    assert history.completions_around(at(10)) == {at(10): at(11)}
    assert history.completions_around(at(7)) == {}


def test_a_file_that_was_rewritten_since_is_looked_for_again(store: MemoryStore) -> None:
    gone = put(store, (1, 2, "commit"))
    publish(store, 1, gone)
    history = LsmHistory(store)
    files = history.files()
    merged = put(store, (1, 2, "commit"), (3, 4, "commit"), level=1)
    store.delete(files[0].path)
    with pytest.raises(ObjectNotFoundError):
        history.completions_around(at(1))
    publish(store, 2, merged)
    assert history.completions_around(at(1)) == {at(1): at(2), at(3): at(4)}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("_version_", b"two"),
        ("manifest_1", b'{"files": [{"fileName": "x"}]}'),
        ("manifest_1", b'{"files": [{"fileName": "notes.txt", "fileLen": 1}]}'),
        ("manifest_1", b"{"),
        (f"{at(1)}_{at(1)}_0.parquet", b"no parquet"),
    ],
)
def test_what_cannot_be_read_is_corrupt_and_named(
    store: MemoryStore, path: str, body: bytes
) -> None:
    publish(store, 1, put(store, (1, 2, "commit")))
    store.put(f"{FOLDER}/{path}", body)
    with pytest.raises(CorruptTableError) as caught:
        LsmHistory(store).completions_around(at(1))
    assert path in str(caught.value)


@pytest.mark.fixtures
def test_a_history_of_hudi_is_read() -> None:
    history = LsmHistory(StoreLocation.of(fixture_table(V9)).open())
    assert len(history.files()) == 2
    commits = list(history.commits())
    assert [str(commit.instant.time) for commit in commits] == sorted(
        (str(commit.instant.time) for commit in commits), reverse=True
    )
    assert all(commit.instant.completed_at and commit.instant.completed_at > commit.instant.time
               for commit in commits)  # fmt: skip
    newest = commits[0].commit_metadata()
    assert newest.schema_json is not None
    assert newest.write_stats
    times = history.completions_around(commits[-1].instant.time)
    assert times[commits[-1].instant.time] == commits[-1].instant.completion_time
