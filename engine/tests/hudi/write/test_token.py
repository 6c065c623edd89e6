"""A write that is repeated with the same token is never written twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError, ConflictError
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.archived_tokens import (
    TOKEN_KEY,
    TOKENS_PATH,
    ArchivedTokens,
    read_archived_tokens,
)
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.token import TokenSearch
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, unexplained_objects

LONG_S = 3600.0
LEASE_S = 310.0
"""Longer than the lock of a dead writer lasts, shorter than its heartbeat."""
ROWS = batch([10, 11], 2)
OPERATIONS = ("insert", "upsert", "bulk_insert", "insert_overwrite", "delete", "delete_partition")
ARCHIVING = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3",
             "hoodie.clean.commits.retained": "1"}  # fmt: skip


@pytest.fixture
def table() -> Iterator[SmallTable]:
    small = SmallTable.in_memory()
    small.write("insert", batch(range(4), 1))
    yield small
    small.forget()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_repeated_write_reports_the_commit_that_took_place(
    table: SmallTable, operation: str
) -> None:
    rows = batch([0, 2], 2) if operation.startswith("delete") else ROWS
    first = table.write(operation, rows, token="night-7")
    after = table.values()
    again = table.write(operation, rows, token="night-7")
    assert (again.instant, again.is_repeat, first.is_repeat) == (first.instant, True, False)
    assert again.rows_inserted == first.rows_inserted
    assert again.rows_deleted == first.rows_deleted
    assert first.instant in again.notes[0]
    assert table.values() == after
    assert len(table.lake().timeline().completed()) == 2
    assert unexplained_objects(open_fresh(table.location)) == []


def test_writes_with_other_tokens_or_none_are_writes_of_their_own(table: SmallTable) -> None:
    for token in ("a", "b", None, None):
        assert not table.write("bulk_insert", batch([10], 2), token=token).is_repeat
    assert [key for key, _ in table.values()].count("k010") == 4


def test_a_token_stands_in_the_commit_and_in_the_inflight_instant(table: SmallTable) -> None:
    hoodie = table.lake().hoodie_table
    seen = []

    def look() -> None:
        (pending,) = hoodie.timeline().pending()
        seen.append(hoodie.timelines.read_commit(pending).extra_metadata[TOKEN_KEY])

    table.write("insert", ROWS, token="night-7", after_files=look)
    newest = hoodie.timeline().last()
    assert newest is not None
    assert hoodie.commits.read(newest).extra_metadata[TOKEN_KEY] == "night-7"
    assert seen == ["night-7"]


def test_of_two_writes_with_one_token_the_first_to_complete_wins(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that comes too late undoes itself and reports the other's commit."""
    reports = []

    def other() -> None:
        # Begun before the first one was inflight, so it did not see its token.
        with monkeypatch.context() as patched:
            patched.setattr(TokenSearch, "require_not_pending", lambda *_: None)
            reports.append(table.write("insert", ROWS, token="night-7"))

    report = table.write("insert", ROWS, token="night-7", after_files=other)
    assert report.is_repeat
    assert report.instant == reports[0].instant
    assert table.values() == [*((f"k00{n}", 1) for n in range(4)), ("k010", 2), ("k011", 2)]
    hoodie = open_fresh(table.location)
    assert len(hoodie.timeline().pending()) == 0
    assert all(".commit" in path or "rollback" in path for path in unexplained_objects(hoodie))


@pytest.mark.parametrize("table_type", list(TableType))
def test_a_dead_write_with_the_token_is_rolled_back_and_written_once(table_type: TableType) -> None:
    small = SmallTable.in_memory(table_type=table_type)
    small.write("insert", batch(range(4), 1))
    rehearsal = FaultyStore(small.copy().store())
    small.copy().write("insert", ROWS, store=rehearsal, token="night-7")
    plan = FaultPlan(crash_before_write=_completing(rehearsal))
    with pytest.raises(SimulatedCrash):
        small.write("insert", ROWS, store=FaultyStore(small.store(), plan), token="night-7")
    small.fake_clock.advance(LEASE_S)
    with pytest.raises(ConflictError, match=r"silent for [0-9]+ s more"):
        small.write("insert", ROWS, token="night-7")
    small.fake_clock.advance(LONG_S)
    report = small.write("insert", ROWS, token="night-7")
    assert (report.is_repeat, len(report.rolled_back)) == (False, 1)
    assert small.write("insert", ROWS, token="night-7").is_repeat
    assert [key for key, _ in small.merged_values()].count("k010") == 1
    small.forget()


def _completing(store: FaultyStore) -> int:
    names = (".commit", ".deltacommit")
    return next(
        n for n, recorded_write in enumerate(store.writes, 1) if recorded_write.path.endswith(names)
    )


def test_an_archived_commit_is_found_by_its_token(table: SmallTable) -> None:
    first = table.write("insert", ROWS, token="night-7")
    for n in range(6):
        table.write("upsert", batch([n], 3))
        table.lake().run("cleaning", options=ARCHIVING)
        table.lake().run("archival", options=ARCHIVING)
    assert table.lake().timeline().find(InstantTime(first.instant)) is None
    before = table.values()
    again = table.write("insert", ROWS, token="night-7")
    assert (again.instant, again.is_repeat, again.rows_inserted) == (first.instant, True, 2)
    assert not table.write("upsert", batch([1], 4), token="night-8").is_repeat
    assert table.values() != before
    assert table.store().get(TOKENS_PATH)
    assert unexplained_objects(open_fresh(table.location)) == []


def test_the_newest_tokens_of_the_archive_are_remembered(table: SmallTable) -> None:
    for n in range(6):
        table.write("upsert", batch([n], 3), token=f"night-{n}")
        table.lake().run("cleaning", options=ARCHIVING)
        table.lake().run("archival", options=ARCHIVING)
    archived = open_fresh(table.location).commits.archive()
    assert read_archived_tokens(archived).instants.keys() >= {"night-0", "night-1", "night-2"}
    archived.store.delete(TOKENS_PATH)
    known = read_archived_tokens(archived, remembers=True, tokens_max=2)
    assert known.has_dropped
    assert len(known.instants) == 2
    assert "night-0" not in known.instants
    assert read_archived_tokens(archived) == known, "no archive file is read again"
    assert read_archived_tokens(archived) != ArchivedTokens()
    report = table.write("insert", ROWS, token="night-0-again")
    assert "are not remembered" in report.notes[-1]


@pytest.mark.parametrize("token", ["", "x" * 201, "a\nb"])
def test_what_is_no_token_is_refused(table: SmallTable, token: str) -> None:
    with pytest.raises(ConfigError, match="1 to 200 printable"):
        table.write("insert", ROWS, token=token)


def test_a_token_names_one_kind_of_write(table: SmallTable) -> None:
    table.write("insert", ROWS, token="night-7")
    with pytest.raises(ConfigError, match="another kind of write, insert"):
        table.write("delete", ROWS, token="night-7")
    assert ("k010", 2) in table.values()
