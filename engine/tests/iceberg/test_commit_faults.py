"""A rewrite's commit over a store that fails: the rows are the same regardless of failures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tideline.errors import StorageUnavailableError
from tideline.iceberg.commit.replacement import RewriteFiles
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.table.table_operations import CommitOutcome, Committed, Conflicted, Unknown
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.stepping_store import Step, SteppingStore

ROWS = [*range(4), *range(6, 30)]
VERSIONS = (1, 2, 3)


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"v{version}")
def prepared(request: pytest.FixtureRequest) -> tuple[IcebergModel, RewriteFiles]:
    """A table with deletes of every kind its version knows, and a rewrite of half its files."""
    version: int = request.param
    model = IcebergModel.create(format_version=version)
    for start in (0, 10, 20):
        model.append(range(start, start + 10))
    if version == 1:
        model.overwrite([4, 5])
    else:
        model.delete_by_value([4])
        model.delete_by_position([5])
    assert model.rows() == ROWS
    return model, model.plan_rewrite([e.data_file.file_path for e in model.files().data()][:4])


def commit(model: IcebergModel, rewrite: RewriteFiles, store: ObjectStore) -> CommitOutcome:
    return commit_rewrite(model.operations(store), rewrite, clock=FakeClock())


def is_rewritten(model: IcebergModel, rewrite: RewriteFiles) -> bool:
    """Whether the new files are the table's; they and the old ones are never both."""
    live = {entry.data_file.file_path for entry in model.files().data()}
    new = {file.file_path for file in rewrite.added_data}
    old = {file.file_path for file in rewrite.removed_data}
    assert (new <= live and not old & live) or (old <= live and not new & live)
    return new <= live


def assert_sound(model: IcebergModel, rewrite: RewriteFiles, when: str) -> None:
    """The rows are right, and the next process can continue."""
    assert model.rows() == ROWS, when
    again = model.plan_rewrite() if is_rewritten(model, rewrite) else rewrite
    assert isinstance(commit(model, again, model.location.open()), Committed), when
    assert model.rows() == ROWS, when
    model.append([99])
    assert model.rows() == [*ROWS, 99], when


def counted(
    prepared: tuple[IcebergModel, RewriteFiles], count: Callable[[FaultyStore], int]
) -> int:
    model, rewrite = prepared
    table = model.copy()
    store = FaultyStore(table.location.open())
    assert isinstance(commit(table, rewrite, store), Committed)
    assert is_rewritten(table, rewrite)
    return count(store)


@pytest.mark.slow_with("v2")
def test_dying_before_or_after_any_write(prepared: tuple[IcebergModel, RewriteFiles]) -> None:
    model, rewrite = prepared
    total = counted(prepared, lambda store: len(store.writes))
    assert total >= 5
    seen = set()
    for number in range(1, total + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            table = model.copy()
            with pytest.raises(SimulatedCrash):
                commit(table, rewrite, FaultyStore(table.location.open(), plan))
            seen.add(is_rewritten(table, rewrite))
            assert_sound(table, rewrite, f"died at write {number}: {plan}")
    assert seen == {False, True}


@pytest.mark.parametrize("reply", LostReply, ids=lambda reply: reply.value)
def test_a_reply_lost_by_the_store_is_no_lost_commit(
    prepared: tuple[IcebergModel, RewriteFiles], reply: LostReply
) -> None:
    model, rewrite = prepared
    total = counted(prepared, lambda store: store.conditional_writes)
    assert total == 1
    table = model.copy()
    plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=reply)
    before = len(table.metadata().snapshots)
    outcome = commit(table, rewrite, FaultyStore(table.location.open(), plan))
    assert isinstance(outcome, Committed)
    assert is_rewritten(table, rewrite)
    assert len(table.metadata().snapshots) == before + 1
    assert table.unreferenced() == set()
    assert_sound(table, rewrite, reply.value)


@pytest.mark.slow_with("v1", "v2")
def test_any_call_may_fail_once(prepared: tuple[IcebergModel, RewriteFiles]) -> None:
    model, rewrite = prepared
    total = counted(prepared, lambda store: store.calls)
    ends = set()
    for number in range(1, total + 1):
        table = model.copy()
        store = FaultyStore(table.location.open(), FaultPlan(unavailable_calls=frozenset([number])))
        when = f"call {number} of {total} failed"
        try:
            outcome = commit(table, rewrite, store)
        except StorageUnavailableError:
            ends.add("raised")
            assert not is_rewritten(table, rewrite), when
            assert table.unreferenced() == set(), when
        else:
            ends.add("committed")
            assert isinstance(outcome, Committed), when
            assert is_rewritten(table, rewrite), when
        assert_sound(table, rewrite, when)
    assert ends == {"raised", "committed"}


@pytest.mark.slow_with("v1", "v2")
def test_a_store_that_goes_away_for_good_leaves_a_readable_table(
    prepared: tuple[IcebergModel, RewriteFiles],
) -> None:
    model, rewrite = prepared
    total = counted(prepared, lambda store: store.calls)
    ends: set[str] = set()
    for number in range(1, total + 1):
        table = model.copy()
        outage = frozenset(range(number, number + 1000))
        store = FaultyStore(table.location.open(), FaultPlan(unavailable_calls=outage))
        when = f"no call from {number} on works"
        try:
            outcome = commit(table, rewrite, store)
        except StorageUnavailableError:
            ends.add("raised")
            assert not is_rewritten(table, rewrite), when
        else:
            assert not isinstance(outcome, Conflicted), when
            ends.add(type(outcome).__name__)
            if isinstance(outcome, Committed):
                assert is_rewritten(table, rewrite), when
        assert_sound(table, rewrite, when)
    assert ends == {"raised", "Unknown", "Committed"}


@pytest.mark.slow_with("v2")
def test_what_a_commit_in_doubt_needs_is_not_removed(
    prepared: tuple[IcebergModel, RewriteFiles],
) -> None:
    """The reply to the publishing request is lost and nothing can be read: deletes would work."""
    model, rewrite = prepared
    table = model.copy()
    published: list[str] = []

    def stay_away(step: Step) -> None:
        if published and not step.method.startswith("delete"):
            raise StorageUnavailableError("away")

    def lose_the_reply(step: Step) -> None:
        if step.method == "put_if_absent" and step.path.endswith(".metadata.json"):
            published.append(step.path)
            raise StorageUnavailableError("the reply was lost")

    store = SteppingStore(table.location.open(), stay_away, lose_the_reply)
    assert isinstance(commit(table, rewrite, store), Unknown)
    assert is_rewritten(table, rewrite)
    assert_sound(table, rewrite, "in doubt")


@pytest.mark.slow_with("v2")
def test_an_unknown_outcome_may_still_have_happened(
    prepared: tuple[IcebergModel, RewriteFiles],
) -> None:
    """The create took place, its reply is lost and the store is gone: nothing may be removed."""
    model, rewrite = prepared
    table = model.copy()
    calls = counted(prepared, lambda store: store.calls)
    for publishing in range(1, calls + 1):
        table = model.copy()
        outage = frozenset(range(publishing + 1, publishing + 1000))
        plan = FaultPlan(lost_reply_of_conditional_write=1, unavailable_calls=outage)
        try:
            outcome = commit(table, rewrite, FaultyStore(table.location.open(), plan))
        except StorageUnavailableError:
            continue
        if isinstance(outcome, Unknown) and is_rewritten(table, rewrite):
            assert table.unreferenced() == set()
            assert_sound(table, rewrite, f"call {publishing} published")
            return
    pytest.fail("no call led to an unknown outcome that had happened")
