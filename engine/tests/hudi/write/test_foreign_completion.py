"""A store that lets two writers create one object: an instant of one that the other completes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.storage.object_store import AlreadyExists, Changed, ObjectStore, Written
from tideline.testing.faulty_store import FaultyStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

ROWS = batch([10, 11], 2)
COMPLETED, MARKER, LOCK = ".commit", ".marker.", "table_lock.json"


class CompletesForAnother(FaultyStore):
    """A store that completes the pending instant for somebody else before the `count`th write to
    a path with the words `before`. The completing request finds the object then."""

    def __init__(self, table: SmallTable, *, before: str, count: int = 1) -> None:
        super().__init__(table.store())
        self._table = table
        self._before = before
        self._left = count
        self.completed: str | None = None

    def put(self, path: str, body: bytes) -> Written:
        self._meet(path)
        return super().put(path, body)

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        self._meet(path)
        return super().put_if_match(path, body, version=version)

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        if path.endswith(COMPLETED) and self._meet(path):
            return AlreadyExists()
        return super().put_if_absent(path, body, token=token)

    def _meet(self, path: str) -> bool:
        self._left -= self._before in path
        is_met = self.completed is None and self._left == 0
        if is_met:
            self.completed = complete_for_another(self._table)
        return is_met


def complete_for_another(table: SmallTable) -> str:
    """Complete the table's pending instant with a commit that has no files; the instant's time."""
    hoodie = open_fresh(table.location, clock=table.clock)
    timeline = hoodie.timeline()
    (pending,) = timeline.pending()
    body = hoodie.timelines.layout.encode_commit(CommitMetadata({}, "insert"))
    completed = hoodie.instants.completed_now(pending, timeline)
    hoodie.timelines.publish(completed, body, "of another")
    return str(pending.time)


@pytest.fixture
def table() -> Iterator[SmallTable]:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(2), 1))
    yield table
    table.forget()


def data_files(store: ObjectStore) -> set[str]:
    return {info.path for info in store.list() if info.path.endswith(".parquet")}


@pytest.mark.parametrize("before", [MARKER, COMPLETED])
def test_it_ends_with_an_error_that_says_what_to_do(table: SmallTable, before: str) -> None:
    store = CompletesForAnother(table, before=before)
    files = data_files(table.store())
    with pytest.raises(CorruptTableError, match="the store let both create the same") as caught:
        table.write("insert", ROWS, store=store)
    error = caught.value
    assert (error.table, str(error.instant)) == (table.location.uri, store.completed)
    assert f"tideline check-store {table.location.uri}" in error.message
    assert error.exit_code == 1, "a retry is not advised"
    assert len(data_files(table.store())) == len(files) + 2, "they may be the other writer's"
    assert not [info for info in table.store().list() if "/.heartbeat/" in info.path]


def test_it_goes_before_a_conflict(table: SmallTable) -> None:
    """It is completed while the lock is given back, under which the conflict was found."""
    store = CompletesForAnother(table, before=LOCK, count=4)
    with pytest.raises(CorruptTableError, match="tideline check-store"):
        table.write(
            "upsert",
            batch([0], 5),
            store=store,
            after_files=lambda: table.write("upsert", batch([0], 6)),
        )
    assert store.completed is not None


def test_an_interrupt_stays_one(table: SmallTable, caplog: pytest.LogCaptureFixture) -> None:
    def interrupted() -> None:
        complete_for_another(table)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.write("insert", ROWS, after_files=interrupted)
    assert "tideline check-store" in caplog.text
