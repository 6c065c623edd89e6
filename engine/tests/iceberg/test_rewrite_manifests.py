"""Rewriting manifests for real: the same files, row ids and rows, despite concurrent changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tideline.errors import StorageUnavailableError
from tideline.iceberg.commit.rewrite_files import commit_rewrite
from tideline.iceberg.manifest.manifest_entry import EntryStatus, ManifestEntry
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.rewrite_manifests.execute import (
    ManifestRun,
    execute_manifests,
    preview_manifests,
)
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.services.rewrite_manifests.sorting import ENTRIES_MAX
from tideline.iceberg.table.table_operations import Committed, Conflicted
from tideline.storage.object_store import ObjectStore
from tideline.testing.fake_clock import FakeClock
from tideline.testing.faulty_store import FaultPlan, FaultyStore, LostReply, SimulatedCrash
from tideline.testing.iceberg_audit import referenced, rows_by_snapshot, stored
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.interrupted_store import InterruptedStore


def scattered(version: int = 2, **properties: str) -> IcebergModel:
    """Both parities in every manifest."""
    named = {name.replace("__", "-").replace("_", "."): text for name, text in properties.items()}
    model = IcebergModel.create(format_version=version, properties=named)
    for start in range(0, 12, 4):
        model.append(range(start, start + 4))
    model.append(range(20, 22), spec_id=1)
    if version > 1:
        model.delete_by_position([1])
        model.delete_by_position([2])
    return model


def half_of_all() -> str:
    """Such a target that the data manifests of one spec become two."""
    model = scattered()
    manifests = manifests_of(model.operations().io, model.metadata().snapshot())
    sizes = [
        manifest.length_bytes
        for manifest in manifests
        if manifest.spec_id == 0 and manifest.content == 0
    ]
    return str(sum(sizes) // 2 + 500)


def rewrite(
    model: IcebergModel,
    store: ObjectStore | None = None,
    entries_max: int = ENTRIES_MAX,
) -> ManifestRun:
    operations, options = model.operations(store), ManifestOptions()
    return execute_manifests(operations, options, clock=FakeClock(), entries_max=entries_max)


def entries(model: IcebergModel) -> dict[str, tuple[object, ...]]:
    """Every live file with all that must not change."""
    return {
        entry.data_file.file_path: (
            entry.snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
            entry.data_file,
        )
        for entry in all_entries(model)
        if entry.is_live
    }


def all_entries(model: IcebergModel) -> list[ManifestEntry]:
    operations = model.operations()
    manifests = manifests_of(operations.io, operations.load().metadata.snapshot())
    return [entry for manifest in manifests for entry in entries_of(operations.io, manifest)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_keep_everything_they_have(version: int) -> None:
    model = scattered(version)
    before, rows = entries(model), rows_by_snapshot(model)
    run = rewrite(model)
    assert isinstance(run.outcome, Committed)
    assert entries(model) == before
    after = rows_by_snapshot(model)
    current = model.metadata().current_snapshot_id
    assert current is not None
    assert after.pop(current) == model.rows()
    assert after == rows
    assert stored(model) == referenced(model)
    statuses = {entry.status for entry in all_entries(model) if entry.data_file.spec_id == 0}
    assert statuses == {EntryStatus.EXISTING}
    model.append([50])
    assert 50 in model.rows()


def test_the_summary_is_icebergs() -> None:
    model = scattered()
    parent = model.metadata().snapshot()
    assert parent is not None
    rewrite(model)
    snapshot = model.metadata().snapshot()
    assert snapshot is not None
    assert snapshot.operation == "replace"
    totals = {k: v for k, v in parent.summary.items() if k.startswith("total-")}
    assert snapshot.summary == {
        "manifests-created": "2",
        "manifests-kept": "1",
        "manifests-replaced": "5",
        "entries-processed": "8",
        "changed-partition-count": "0",
        **totals,
    }
    assert len(totals) == 6


def test_partitions_lie_apart_afterwards_and_a_second_run_has_nothing_to_do() -> None:
    model = scattered(commit_manifest_target__size__bytes=half_of_all())
    assert preview_manifests(model.operations(), ManifestOptions()) != ()
    run = rewrite(model)
    data = [manifest_file for manifest_file in run.created if manifest_file.content == 0]
    assert len(data) == 2
    for manifest in data:
        assert manifest.partitions is not None
        summary = manifest.partitions[0]
        assert summary.lower_bound == summary.upper_bound
    assert rewrite(model).outcome is None
    assert preview_manifests(model.operations(), ManifestOptions()) == ()


def test_a_table_without_snapshots_has_nothing_to_do() -> None:
    assert rewrite(IcebergModel.create()).outcome is None


@pytest.mark.parametrize("entries_max", [1, 3, 6])
def test_many_entries_are_sorted_partition_by_partition(entries_max: int) -> None:
    model = scattered(commit_manifest_target__size__bytes=half_of_all())
    twin = model.copy()
    before = entries(twin)
    rewrite(model)
    rewrite(twin, entries_max=entries_max)
    assert entries(twin) == before

    def layout(iceberg_model: IcebergModel) -> list[tuple[object, ...]]:
        manifests = manifests_of(iceberg_model.operations().io, iceberg_model.metadata().snapshot())
        return [(m.partitions, m.existing_files_count, m.content) for m in manifests]

    assert layout(twin) == layout(model)


def test_old_snapshots_can_expire_afterwards() -> None:
    model = scattered()
    rows = model.rows()
    rewrite(model)
    execute_expire(model.operations(), ExpireOptions(older_than_ms=2**62), clock=FakeClock())
    assert model.rows() == rows
    assert stored(model) == referenced(model)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_dying_before_or_after_any_write(version: int) -> None:
    model = scattered(version)
    rows = model.rows()
    counted = FaultyStore(model.copy().location.open())
    rewrite(model.copy(), counted)
    states = set()
    for number in range(1, len(counted.writes) + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            table = model.copy()
            with pytest.raises(SimulatedCrash):
                rewrite(table, FaultyStore(table.location.open(), plan))
            assert referenced(table) <= stored(table)
            assert table.rows() == rows
            states.add(len(table.metadata().snapshots))
            table.append([99])
            assert table.rows() == [*rows, 99]
    assert len(states) == 2


@pytest.mark.parametrize("reply", LostReply, ids=lambda reply: reply.value)
def test_a_lost_reply_is_no_lost_commit(reply: LostReply) -> None:
    model = scattered()
    before = entries(model)
    plan = FaultPlan(lost_reply_of_conditional_write=1, lost_reply=reply)
    run = rewrite(model, FaultyStore(model.location.open(), plan))
    assert isinstance(run.outcome, Committed)
    assert entries(model) == before
    assert stored(model) == referenced(model)


def test_any_call_may_fail_once() -> None:
    model = scattered()
    before = entries(model)
    counted = FaultyStore(model.copy().location.open())
    rewrite(model.copy(), counted)
    ends = set()
    for number in range(1, counted.calls + 1):
        table = model.copy()
        plan = FaultPlan(unavailable_calls=frozenset([number]))
        try:
            outcome = rewrite(table, FaultyStore(table.location.open(), plan)).outcome
            assert isinstance(outcome, Committed), number
            ends.add("committed")
        except StorageUnavailableError:
            assert stored(table) == stored(model), number
            ends.add("raised")
        assert entries(table).keys() == entries(model).keys() == before.keys(), number
        assert table.rows() == model.rows(), number
    assert ends == {"raised", "committed"}


def compact(model: IcebergModel) -> None:
    assert isinstance(commit_rewrite(model.operations(), model.plan_rewrite()), Committed)


RIVALS: dict[str, Callable[[IcebergModel], object]] = {
    "append": lambda table: table.append([50, 51]),
    "delete": lambda table: table.delete_by_position([3]),
    "overwrite": lambda table: table.overwrite([8]),
    "compaction": compact,
    "rewrite of manifests": lambda table: rewrite(table),
}


@pytest.mark.slow_with("append", "delete", "compaction")
@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_before_any_call_keeps_its_work(name: str) -> None:
    model = scattered()
    alone = model.copy()
    RIVALS[name](alone)
    rehearsal = InterruptedStore(model.copy().location.open(), 0, lambda: None)
    rewrite(model.copy(), rehearsal)
    ends = set()
    for number in rehearsal.moments(every=5):
        table = model.copy()
        work = partial(RIVALS[name], table)
        run = rewrite(table, InterruptedStore(table.location.open(), number, work))
        ends.add(type(run.outcome))
        assert table.rows() == alone.rows(), number
        assert stored(table) == referenced(table), number
        assert len(table.files().data()) == len(alone.files().data()), number
    assert Committed in ends
    assert ends <= {Committed, Conflicted, type(None)}
