"""Rewritten position delete files: fewer files, the same rows, despite concurrent changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, UnsupportedTableError
from tideline.iceberg.scan.delete_index import referenced_data_file
from tideline.iceberg.services.rewrite_position_deletes.execute import (
    DeleteRewriteRun,
    execute_position_deletes,
)
from tideline.iceberg.services.rewrite_position_deletes.plan import (
    delete_rewrite_options,
    plan_position_deletes,
)
from tideline.iceberg.services.rewrite_position_deletes.search import prepare_position_deletes
from tideline.iceberg.table.table_operations import Committed, Conflicted
from tideline.services.benefit import Benefit
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.iceberg_audit import referenced, stored
from tideline.testing.iceberg_delete_table import DeleteTable
from tideline.testing.iceberg_model_files import PATH_FIELD_ID
from tideline.testing.interrupted_store import InterruptedStore


def rewrite(
    table: DeleteTable,
    store: ObjectStore | None = None,
    *,
    positions_max: int = 1000,
    clock: FakeClock | None = None,
    **options: str,
) -> DeleteRewriteRun:
    given = {name.replace("__", ".").replace("_", "-"): text for name, text in options.items()}
    operations = table.model.operations(store)
    parsed = delete_rewrite_options(given, operations.load().metadata.properties)
    return execute_position_deletes(
        operations, parsed, clock=clock or FakeClock(), positions_max=positions_max
    )


def worn(**properties: str) -> DeleteTable:
    """Three data files and six delete files of one partition, one each of another."""
    table = DeleteTable.create(**properties)
    for name in "cab":
        table.append(name, [ord(name) * 100 + at for at in range(20)])
    table.append("o", range(1, 11), parity="odd")
    for at in range(5):
        table.delete({"a": [at], "c": [at, 19 - at]})
    table.delete({"b": [7, 3], "a": [2]})
    table.delete({"o": [5]}, parity="odd")
    return table


def test_small_files_become_one_sorted_by_path_and_position() -> None:
    table = worn()
    rows = table.rows()
    numbers = [
        delete_file.sequence_number
        for delete_file in table.deletes()
        if delete_file.data_file.record_count > 1
    ]
    bytes_before = sum(delete_file.data_file.file_size_bytes for delete_file in table.deletes())
    run = rewrite(table)
    spared = bytes_before - sum(
        delete_file.data_file.file_size_bytes for delete_file in table.deletes()
    )
    assert run.benefit == Benefit(
        files_opened=5, bytes_scanned=spared, delta_files=5, delta_bytes=spared
    )
    assert [type(outcome) for outcome in run.outcomes] == [Committed]
    assert (run.files_removed, run.files_added) == (6, 1)
    assert (run.positions_removed, run.positions_added) == (18, 17)
    assert table.rows() == rows
    assert len(table.deletes()) == 2
    new = next(
        delete_file
        for delete_file in table.deletes()
        if delete_file.data_file.partition == ("even",)
    )
    pairs = table.pairs(new)
    assert pairs == sorted(set(pairs))
    assert len(pairs) == new.data_file.record_count == 17
    assert new.sequence_number == max(number for number in numbers if number is not None)
    bounds = new.data_file.lower_bounds, new.data_file.upper_bounds
    assert [(bound or {})[PATH_FIELD_ID].decode() for bound in bounds] == [
        table.path("a"),
        table.path("c"),
    ]
    assert new.data_file.sort_order_id is None
    assert referenced_data_file(new.data_file) is None
    assert rewrite(table).plan.is_empty
    snapshot = table.model.metadata().snapshot()
    assert snapshot is not None
    assert (snapshot.operation, snapshot.summary["removed-position-deletes"]) == ("replace", "18")


def test_deletes_of_data_that_is_gone_are_dropped() -> None:
    table = worn()
    table.delete({"b": [1]}, names_file=True)
    table.remove("b")
    rows = table.rows()
    run = rewrite(table)
    assert len(run.plan.dangling) == 1
    assert run.files_removed == 7
    assert table.rows() == rows
    assert not any(
        name == "b" for delete_file in table.deletes() for name, _ in table.pairs(delete_file)
    )


def test_a_group_of_nothing_but_dangling_deletes_leaves_no_file() -> None:
    table = DeleteTable.create()
    table.append("a", range(5))
    table.append("b", range(5, 10))
    table.delete({"a": [0]})
    table.delete({"a": [1]})
    table.remove("a")
    run = rewrite(table, rewrite_all="true")
    assert (run.files_removed, run.files_added) == (2, 0)
    assert table.deletes() == []
    assert table.rows() == [*range(5, 10)]


def test_a_delete_never_begins_to_apply_to_younger_data() -> None:
    """The higher number of its group would make it apply to a data file that came after it."""
    table = DeleteTable.create()
    table.append("a", range(5))
    table.delete({"late": [0], "a": [0]})
    table.append("late", range(10, 15))
    table.delete({"a": [1], "late": [4]})
    rows = table.rows()
    assert rows == [2, 3, 4, 10, 11, 12, 13]
    run = rewrite(table, rewrite_all="true")
    assert isinstance(run.outcomes[0], Committed)
    assert len(table.deletes()) == 1
    assert table.rows() == rows


def test_partitions_that_other_writers_changed_lately_are_left_to_them() -> None:
    table = worn()
    table.model.clock.sleep(700.0)
    table.delete({"o": [7]}, parity="odd")
    clock = FakeClock(table.model.clock.now_ms() + 1_000)
    run = rewrite(table, clock=clock, min_input_files="1", tideline__quiet_for_ms="600000")
    assert {group.partition for group in run.plan.groups} == {("even",)}
    clock.advance(700.0)
    run = rewrite(table, clock=clock, min_input_files="1", tideline__quiet_for_ms="600000")
    assert {group.partition for group in run.plan.groups} >= {("odd",)}


@pytest.mark.parametrize("positions_max", [1, 5, 9])
def test_memory_is_bounded_by_taking_paths_in_portions(positions_max: int) -> None:
    table = worn()
    twin = table.copy()
    rewrite(table)
    run = rewrite(twin, positions_max=positions_max)
    assert run.positions_added == 17
    found, expected = (
        [
            delete_table.pairs(delete)
            for delete in delete_table.deletes()
            if delete.data_file.record_count > 1
        ]
        for delete_table in (twin, table)
    )
    assert found == expected


def test_files_about_one_data_file_each_when_the_table_wants_that() -> None:
    table = worn(write_delete_granularity="file")
    rows = table.rows()
    rewrite(table)
    new = [
        delete_file
        for delete_file in table.deletes()
        if delete_file.data_file.partition == ("even",)
    ]
    named = [entry.data_file.referenced_data_file for entry in new]
    assert sorted(str(entry) for entry in named) == [table.path(name) for name in "abc"]
    for manifest_entry in new:
        assert len({name for name, _ in table.pairs(manifest_entry)}) == 1
    assert table.rows() == rows


def test_a_file_ends_when_it_has_the_wanted_size() -> None:
    table = DeleteTable.create()
    table.append("a", range(60_000))
    for start in range(0, 60_000, 20_000):
        table.delete({"a": range(start, start + 20_000, 2)})
    rows = table.rows()
    run = rewrite(
        table,
        positions_max=100_000,
        rewrite_all="true",
        target_file_size_bytes="10000",
        max_file_size_bytes="12000",
    )
    assert run.files_added > 1
    assert table.rows() == rows
    assert sum(delete_file.data_file.record_count for delete_file in table.deletes()) == 30_000


def test_what_cannot_be_rewritten_is_named() -> None:
    table = worn()
    metadata = table.model.metadata()
    options = delete_rewrite_options({"rewrite-all": "true"}, {})
    live = prepare_position_deletes(table.model.operations(), options).live
    entry = table.deletes()[0]
    for change, reason in (
        ({"file_format": "AVRO"}, "AVRO files"),
        ({"key_metadata": b"k"}, "encrypted files"),
        ({"column_sizes": {1: 5}}, "files that carry the deleted rows along"),
    ):
        other = replace(entry, data_file=replace(entry.data_file, **change))
        plan = plan_position_deletes([other], live, metadata, options)
        assert (plan.groups, plan.skipped) == ((), {reason: 1})
        assert plan.named == {reason: (entry.data_file.file_path,)}
    with pytest.raises(
        UnsupportedTableError, match=f"deletion vectors.*{entry.data_file.file_path}"
    ):
        plan_position_deletes([entry], live, replace(metadata, format_version=3), options)
    with pytest.raises(ConfigError, match="delete-ratio-threshold"):
        delete_rewrite_options({"delete-ratio-threshold": "0.1"}, {})


def test_the_defaults_are_icebergs() -> None:
    options = delete_rewrite_options({}, {})
    assert options.target_size_bytes == 64 * 1024 * 1024
    assert options.input_files_min == 5
    smaller = delete_rewrite_options({}, {"write.delete.target-file-size-bytes": "1000"})
    assert (smaller.size_bytes_min, smaller.size_bytes_max) == (750, 1800)


def test_partial_progress_commits_partition_by_partition() -> None:
    table = worn()
    rows = table.rows()
    run = rewrite(table, rewrite_all="true", partial_progress__enabled="true")
    assert [type(outcome) for outcome in run.outcomes] == [Committed, Committed]
    assert table.rows() == rows
    assert len(table.deletes()) == 2


def test_dying_before_or_after_any_write() -> None:
    table = worn()
    rows = table.rows()
    counted = FaultyStore(table.copy().model.location.open())
    rewrite(table.copy(), counted)
    states = set()
    for number in range(1, len(counted.writes) + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            twin = table.copy()
            with pytest.raises(SimulatedCrash):
                rewrite(twin, FaultyStore(twin.model.location.open(), plan))
            assert referenced(twin.model) <= stored(twin.model)
            assert twin.rows() == rows
            states.add(len(twin.deletes()))
            twin.append("more", [9999])
            assert twin.rows() == [*rows, 9999]
    assert states == {2, 7}


@pytest.mark.slow
def test_any_call_may_fail_once() -> None:
    table = worn()
    rows = table.rows()
    counted = FaultyStore(table.copy().model.location.open())
    rewrite(table.copy(), counted)
    ends = set()
    for number in range(1, counted.calls + 1):
        twin = table.copy()
        plan = FaultPlan(unavailable_calls=frozenset([number]))
        try:
            run = rewrite(twin, FaultyStore(twin.model.location.open(), plan))
            assert isinstance(run.outcomes[0], Committed), number
            ends.add("committed")
        except StorageUnavailableError:
            assert stored(twin.model) == stored(table.model), number
            ends.add("raised")
        assert twin.rows() == rows, number
    assert ends == {"raised", "committed"}


@pytest.mark.parametrize("reply", LostReply, ids=lambda reply: reply.value)
def test_a_lost_reply_is_no_lost_commit(reply: LostReply) -> None:
    table = worn()
    rows = table.rows()
    plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=reply)
    run = rewrite(table, FaultyStore(table.model.location.open(), plan))
    assert isinstance(run.outcomes[0], Committed)
    assert table.rows() == rows
    assert referenced(table.model) == stored(table.model)


RIVALS: dict[str, Callable[[DeleteTable], object]] = {
    "append": lambda table: table.append("new", [1, 2, 3]),
    "delete": lambda table: table.delete({"a": [11]}),
    "removal of data": lambda table: table.remove("a"),
    "rewrite": lambda table: rewrite(table),
}


@pytest.mark.slow_with("removal of data", "rewrite", "delete", "append")
@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_before_any_call_keeps_its_work(name: str) -> None:
    table = worn()
    alone = table.copy()
    RIVALS[name](alone)
    rehearsal = InterruptedStore(table.copy().model.location.open(), 0, lambda: None)
    rewrite(table.copy(), rehearsal)
    ends: set[type] = set()
    for number in rehearsal.moments(every=20):
        twin = table.copy()
        work = partial(RIVALS[name], twin)
        run = rewrite(twin, InterruptedStore(twin.model.location.open(), number, work))
        ends.update(map(type, run.outcomes))
        assert twin.rows() == alone.rows(), number
        assert referenced(twin.model) == stored(twin.model), number
    assert ends == ({Committed, Conflicted} if name == "rewrite" else {Committed})
