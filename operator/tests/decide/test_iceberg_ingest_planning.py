"""Ingests of Iceberg tables in the planner: what creates them, what is next, what runs beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.iceberg.metadata.snapshot import SnapshotRef
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    ICEBERG,
    CreateTable,
    IngestRange,
    Operation,
    OperationKind,
)
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileListing
from tideline.testing.file_ingests import checkpoint_after
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.decide.actions import Blocked, Start, Wait
from tideline_operator.decide.observed import Observed, ObservedSource
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.decide.planner import plan
from tideline_operator.report.status import observed_status
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    ConditionType,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
)
from tideline_operator.testing.table_states import (
    EMPTY,
    FILES,
    NOW_MS,
    resolved,
    resolved_iceberg,
    starts,
)

INGEST = {
    "name": "landing",
    "source": {"format": "parquet", "path": "landing"},
    "operation": "insert",
}


def table(**spec: Any) -> ResolvedTable:
    sources = resolved(ingest=[{**INGEST, "operation": "upsert"}]).sources
    return replace(resolved_iceberg(ingest=[INGEST], **spec), sources=sources)


def seen(checkpoint: Checkpoint | None = None, *, exists: bool = True) -> Observed:
    known = {} if checkpoint is None else {"landing": checkpoint}
    metadata = IcebergModel.create().metadata()
    iceberg = ObservedIceberg(metadata, "metadata/v1.metadata.json", checkpoints=known)
    sources = {"landing": ObservedSource(FileListing(FILES))}
    return Observed(sources=sources, iceberg=iceberg if exists else None)


def started(declared: ResolvedTable, observed: Observed) -> list[Operation]:
    """Of what makes the table and fills it."""
    found = (start.operation for start in starts(plan(declared, EMPTY, observed, NOW_MS)))
    return [item for item in found if item.kind in (OperationKind.CREATE, OperationKind.INGEST)]


def test_what_landed_is_ingested_after_what_the_table_has() -> None:
    (first,) = started(table(recordKey=["id"], partitionBy=["day(ts)"]), seen())
    assert isinstance(first.work, IngestRange)
    assert first.work.range.names == tuple(file.path for file in FILES)
    target = first.table
    assert (target.format, target.record_key, target.partition_by) == (
        ICEBERG,
        ("id",),
        ("day(ts)",),
    )
    assert Operation.from_json_object(first.to_json_object()).table == target
    (source,) = table().sources.values()
    assert isinstance(source, DeclaredFiles)
    taken = checkpoint_after(None, FileListing(FILES), FILES[:1])
    known = replace(taken, address=source.address("memory://table"))
    (second,) = started(table(), seen(known))
    assert isinstance(second.work, IngestRange)
    assert second.work.range.names == tuple(file.path for file in FILES[1:])
    assert second.work.generation == 1
    status = observed_status(table(), EMPTY, seen(known), (), NOW_MS)
    assert status.ingest["landing"].checkpoint == str(known)
    assert status.ingest["landing"].lag_files == len(FILES) - 1


def test_a_table_that_is_not_there_is_created_by_its_columns_or_its_first_files() -> None:
    columns = [{"name": "id", "type": "int"}]
    (create,) = started(table(schema=columns), seen(exists=False))
    assert isinstance(create.work, CreateTable)
    assert [column.name for column in create.table.schema] == ["id"]
    (ingest,) = started(table(), seen(exists=False))
    assert ingest.kind is OperationKind.INGEST


def test_a_lower_version_is_upgraded_first_and_a_higher_one_refused() -> None:
    columns = [{"name": "id", "type": "int"}]
    (create,) = started(table(schema=columns, formatVersion=3), seen(exists=False))
    assert create.table.format_version == 3
    assert Operation.from_json_object(create.to_json_object()).table == create.table
    for wanted, kinds in ((None, ["ingest"]), (2, ["ingest"]), (3, ["create"])):
        declared = table(formatVersion=wanted)
        assert [item.kind.value for item in started(declared, seen())] == kinds, wanted
    declared = table(formatVersion=3)
    (upgrade,) = starts(plan(declared, EMPTY, seen(), NOW_MS))
    assert upgrade.reason == "spec.formatVersion is 3, and the table is of version 2"
    assert not started(table(formatVersion=3, fenced=True), seen())
    # Nothing more begins before it, but where it failed and waits.
    busy = replace(seen(), running=frozenset({"ingest"}))
    (wait,) = plan(declared, _with_running("ingest", "ingest"), busy, NOW_MS)
    assert isinstance(wait, Wait) and "when what is under way has ended" in wait.reason
    later_ms = Timestamp(NOW_MS + 60_000)
    (entry,) = _with_running(upgrade.operation.id, "create").operations
    entry = replace(entry, phase=OperationPhase.FAILED, retry_at=later_ms)
    actions = plan(declared, replace(EMPTY, operations=(entry,)), seen(), NOW_MS)
    admitted = {item.operation.kind for item in starts(actions)}
    assert OperationKind.INGEST in admitted and OperationKind.CREATE not in admitted
    assert any(isinstance(item, Wait) and item.subject == "create" for item in actions)
    later = seen()
    assert later.iceberg is not None
    metadata = replace(later.iceberg.metadata, format_version=3)
    later = replace(later, iceberg=replace(later.iceberg, metadata=metadata))
    (blocked,) = plan(table(formatVersion=2), EMPTY, later, NOW_MS)
    assert isinstance(blocked, Blocked) and blocked.reason == "TableMismatch"
    assert "but the table is of version 3, and no table goes back" in blocked.message
    assert started(declared, later)[0].kind is OperationKind.INGEST


def test_a_copy_that_others_wrote_beside_is_stopped_by_name() -> None:
    """Main has a snapshot that is no rewrite, which the copy did not come from."""
    model = IcebergModel.create()
    for number in range(2):
        model.append([number])
    metadata = model.metadata()
    first, second = metadata.snapshots
    copied = replace(
        second,
        snapshot_id=77,
        parent_snapshot_id=first.snapshot_id,
        summary={**second.summary, "tideline.resync-main": "parent"},
    )
    refs = {**metadata.refs, "tideline-resync-landing": SnapshotRef(77)}
    for operation, reasons in (("append", ["CopyStopped"]), ("replace", [])):
        snapshots = (first, replace(second, operation=operation), copied)
        observed = seen()
        assert observed.iceberg is not None
        changed = replace(metadata, snapshots=snapshots, refs=refs)
        observed = replace(observed, iceberg=replace(observed.iceberg, metadata=changed))
        actions = plan(table(), EMPTY, observed, NOW_MS)
        blocked = [action for action in actions if isinstance(action, Blocked)]
        assert [action.reason for action in blocked] == reasons
        assert bool(started(table(), observed)) is not bool(reasons)
        status = observed_status(table(), EMPTY, observed, actions, NOW_MS)
        found = {item.type: item for item in status.conditions}[ConditionType.INGESTING]
        assert (found.reason == "CopyStopped") is bool(reasons)


def test_another_source_under_the_same_name_is_refused() -> None:
    known = replace(checkpoint_after(None, FileListing(FILES), FILES), address="elsewhere")
    actions = plan(table(), EMPTY, seen(known), NOW_MS)
    assert any(isinstance(action, Blocked) and action.reason == "SourceMoved" for action in actions)


def test_a_fence_keeps_rows_out_and_not_services() -> None:
    actions = plan(table(fenced=True), EMPTY, seen(), NOW_MS)
    assert [action.reason for action in actions if isinstance(action, Blocked)] == ["Fenced"]
    assert not [item for item in starts(actions) if item.operation.kind is OperationKind.INGEST]


def test_rows_are_appended_while_files_are_rewritten() -> None:
    rewriting = replace(seen(), running=frozenset({"rewrite"}))
    status = _with_running("rewrite", "rewrite")
    actions = plan(table(), status, rewriting, NOW_MS)
    assert [item.operation.kind for item in starts(actions)] == [OperationKind.INGEST]
    other = replace(seen(), running=frozenset({"ingest"}))
    assert not starts(plan(table(), _with_running("ingest", "ingest"), other, NOW_MS))


def _with_running(operation_id: str, kind: str) -> LakeTableStatus:
    entry = OperationStatus(
        id=operation_id,
        kind=kind,
        subject="landing" if kind == "ingest" else "",
        phase=OperationPhase.RUNNING,
        started_at=Timestamp(NOW_MS),
    )
    return replace(EMPTY, operations=(entry,))


def test_a_table_whose_sources_are_all_read_waits_for_the_next_look() -> None:
    (source,) = table().sources.values()
    known = checkpoint_after(None, FileListing(FILES), FILES)
    known = replace(known, address=source.address("memory://table"))
    actions = plan(table(services={"mode": "Off"}), EMPTY, seen(known), NOW_MS)
    assert [type(action) for action in actions] == [Wait]
    status = observed_status(table(), EMPTY, seen(known), actions, NOW_MS)
    found = {item.type: item for item in status.conditions}
    assert found[ConditionType.INGESTING].reason == "Current"


@pytest.mark.parametrize("term", ["day(at)", "bucket(16, place.id)", "truncate(4,name)", "id"])
def test_partitions_may_be_transforms(term: str) -> None:
    columns = [
        {"name": name, "type": kind}
        for name, kind in (
            ("id", "int"),
            ("at", "timestamp"),
            ("name", "string"),
            ("place", "struct<id:int>"),
        )
    ]
    declared = table(schema=columns, partitionBy=[term])
    assert declared.spec.partition_by == (term,)
    assert isinstance(started(declared, seen(exists=False))[0].work, CreateTable)
    assert Location("memory://table") == declared.location
    assert not any(isinstance(item, Start) for item in plan(declared, EMPTY, Observed(), 0)[1:])
