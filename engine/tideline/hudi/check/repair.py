"""Mending what is safe to mend.

Every repair deletes or writes single objects that readers do not count on, or must not; dying in
between leaves the rest for the next time. It happens under the table lock, with findings made under
it: the writers that are at work are then known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tideline.check_finding import Finding, Repair, RepairKind
from tideline.errors import ConflictError, CorruptTableError
from tideline.hudi.capabilities.guard import require
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.check.run import check_table
from tideline.hudi.commit.completion import require_lease
from tideline.hudi.metadata_indexes.remade_indexes import IndexesThere
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.recovery.execute import FailedWrites
from tideline.hudi.recovery.sweep import sweep_leftovers
from tideline.hudi.services.archival.execute import finish_archival
from tideline.hudi.services.savepoint.record import savepointed_files
from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.table.properties import recover_table_properties
from tideline.hudi.timeline.instant import Action
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.local.unfinished_files import remove_unfinished
from tideline.storage.lock import Guard

_DELETING = (RepairKind.DELETE_FILE,)


def plan_repairs(findings: Iterable[Finding]) -> tuple[Repair, ...]:
    """The repairs of the findings, each once, in the order in which they are made."""
    wanted = {finding.repair for finding in findings if finding.repair is not None}
    order = list(RepairKind)
    return tuple(sorted(wanted, key=lambda repair: (order.index(repair.kind), repair.path)))


def repair_table(
    table: HoodieTable, policy: FailedWrites, *, keys: bool = False
) -> tuple[Repair, ...]:
    """Check under the table lock and mend what is safe to mend; returns the repairs made.

    Raises CorruptTableError naming a file whose deletion was refused and the reason, ConflictError
    where Hudi builds an index in a metadata table that is to be made again: all other repairs were
    made then. ConflictError also when the lock was lost, ConfigError when the table's zone must be
    declared.
    """
    with table.lock().acquire() as lease:
        require(table, Permission.REPAIR)
        repairs = plan_repairs(check_table(table, keys=keys))
        refused = _delete(
            table, [candidate.path for candidate in repairs if candidate.kind in _DELETING]
        )
        guard = partial(require_lease, lease, table, table.instants.next_time(table.timeline()))
        conflict: ConflictError | None = None
        for repair in repairs:
            try:
                _execute(table, repair, policy, guard)
            except ConflictError as error:
                guard()
                conflict = error
        if refused is not None:
            raise refused
        if conflict is not None:
            raise conflict
        return repairs


def _delete(table: HoodieTable, paths: Sequence[str]) -> CorruptTableError | None:
    """Delete what may be deleted; the refusal of the rest."""
    if not paths:
        return None
    try:
        scope = _deletion_scope(table, paths)
        refusals = scope.refusals(paths)
        scope.remove_many(path for path in paths if path not in refusals)
        scope.check(refusals)
    except CorruptTableError as refused:
        return refused
    return None


def _deletion_scope(table: HoodieTable, paths: Iterable[str]) -> DeleteScope:
    """Data files and sidecars of ones that are gone; never what a savepoint or a plan names.

    Of the timeline only objects of cleans, which lose nothing that a new plan would keep.
    """
    timeline = table.timeline()
    kept = savepointed_files(table, timeline)
    planned = table.commits.planned_groups(
        timeline, Action.COMPACTION, Action.LOGCOMPACTION, Action.REPLACECOMMIT, Action.CLUSTERING
    )

    def objection(path: str) -> str | None:
        partition, name = split_path(path)
        is_sidecar = name.startswith(".") and name.endswith(".crc")
        file = parse_data_file(partition, name[1:-4] if is_sidecar else name, 0)
        if file is None:
            return "it is not a data file"
        if is_sidecar:
            return None
        if name in kept.get(partition, ()):
            return "a savepoint keeps it"
        if file.group in planned and timeline.is_committed(file.instant):
            return "a pending plan reads its file group"
        return None

    cleans = frozenset(path for path in paths if _is_clean(table, path))
    return table.files.delete_scope("the repair", objection, control=cleans)


def _is_clean(table: HoodieTable, path: str) -> bool:
    directory, name = split_path(path)
    layout = table.timelines.layout
    instant = layout.parse(name) if directory == layout.directory else None
    return instant is not None and instant.action is Action.CLEAN


def _execute(table: HoodieTable, repair: Repair, policy: FailedWrites, guard: Guard) -> None:
    if repair.kind is RepairKind.WRITE_PARTITION_METADATA:
        first = table.timeline().completed().first()
        if first is not None:
            write_partition_metadata(table.store, repair.path, first.time)
    elif repair.kind is RepairKind.SWEEP_LEFTOVERS:
        sweep_leftovers(table, table.timeline(), policy)
    elif repair.kind is RepairKind.REMOVE_UNFINISHED:
        remove_unfinished(table.store, repair.path)
    elif repair.kind is RepairKind.FINISH_ARCHIVAL:
        finish_archival(table)
    elif repair.kind is RepairKind.REBUILD_METADATA_TABLE:
        there = IndexesThere.of(table)
        bootstrap_metadata_table(table, table.timeline(), guard)
        there.make_again(table, guard)
    elif repair.kind is RepairKind.RESTORE_PROPERTIES:
        recover_table_properties(table.store)
