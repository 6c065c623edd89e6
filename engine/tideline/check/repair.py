"""Mending what is safe to mend.

Every repair deletes or writes single objects that readers do not count on, or must not; dying in
between leaves the rest for the next time. It happens under the table lock, with findings made under
it: whoever is writing meanwhile is then known.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.check.finding import Finding, Repair, RepairKind
from tideline.check.run import check_table
from tideline.services.archival.execute import finish_archival
from tideline.services.rollback.execute import FailedWrites
from tideline.services.rollback.sweep import sweep_leftovers
from tideline.storage.local import remove_unfinished
from tideline.table.hoodie_table import HoodieTable
from tideline.table.partition_metadata import write_partition_metadata
from tideline.table.properties import recover_table_properties


def plan_repairs(findings: Iterable[Finding]) -> tuple[Repair, ...]:
    """The repairs of the findings, each once, in the order in which they are made."""
    wanted = {finding.repair for finding in findings if finding.repair is not None}
    order = list(RepairKind)
    return tuple(sorted(wanted, key=lambda repair: (order.index(repair.kind), repair.path)))


def repair_table(
    table: HoodieTable, policy: FailedWrites, *, lock_timeout_s: float, keys: bool = False
) -> tuple[Repair, ...]:
    """Check under the table lock and mend what is safe to mend; returns the repairs made."""
    with table.lock().acquire(timeout_s=lock_timeout_s):
        repairs = plan_repairs(check_table(table, keys=keys))
        for repair in repairs:
            _execute(table, repair, policy)
        return repairs


def _execute(table: HoodieTable, repair: Repair, policy: FailedWrites) -> None:
    if repair.kind is RepairKind.DELETE_FILE:
        table.store.delete(repair.path)
    elif repair.kind is RepairKind.WRITE_PARTITION_METADATA:
        first = table.timeline().completed().first()
        if first is not None:
            write_partition_metadata(table.store, repair.path, first.time)
    elif repair.kind is RepairKind.SWEEP_LEFTOVERS:
        sweep_leftovers(table, table.timeline(), policy)
    elif repair.kind is RepairKind.REMOVE_UNFINISHED:
        remove_unfinished(table.store, repair.path)
    elif repair.kind is RepairKind.FINISH_ARCHIVAL:
        finish_archival(table)
    elif repair.kind is RepairKind.RESTORE_PROPERTIES:
        recover_table_properties(table.store)
