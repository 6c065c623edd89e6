"""What is under way on a table, and whether an operation may begin next to it. Pure.

The rules are those of `tideline.services.concurrency`; here operations are put in its terms.
"""

from __future__ import annotations

from tideline.ingest.operation.operation import Operation, OperationKind
from tideline.services.concurrency import TableWork, may_begin
from tideline_operator.decide.observed import Observed
from tideline_operator.resources.ingest import IngestOperation
from tideline_operator.resources.lake_table import TableFormat
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

_UPDATES = "hoodie.clustering.updates.strategy"
_ALLOW = "SparkAllowUpdateStrategy"
_ONLY_INSERTS = (IngestOperation.INSERT, IngestOperation.BULK_INSERT)


def may_begin_now(
    operation: Operation, table: ResolvedTable, status: LakeTableStatus, observed: Observed
) -> bool:
    """Whether the operation fits what is under way."""
    under_way = []
    known = {operation_status.id: operation_status for operation_status in status.operations}
    for operation_id in observed.running:
        entry = known.get(operation_id)
        if entry is None:
            under_way.append(TableWork(is_alone=True))
        else:
            under_way.append(_work(OperationKind(entry.kind), entry.subject, table, observed))
    return may_begin(_work(operation.kind, operation.subject, table, observed), under_way)


def _work(kind: OperationKind, subject: str, table: ResolvedTable, observed: Observed) -> TableWork:
    if kind is OperationKind.INGEST:
        return TableWork(meets_clustering=_meets_clustering(subject, table, observed))
    service = kind.service
    if service is None:
        return TableWork(is_alone=True)
    pending = () if observed.table is None else observed.table.pending
    is_planned = any(instant.service == service for instant in pending)
    # Services of Iceberg tables leave no plans to wait for.
    is_iceberg = table.spec.format is TableFormat.ICEBERG
    return TableWork(service, is_planned=is_planned or is_iceberg)


def _meets_clustering(ingest_name: str, table: ResolvedTable, observed: Observed) -> bool:
    """Whether an ingest may touch what a pending clustering will replace, and be refused for it."""
    spec = table.spec
    ingest = next((candidate for candidate in spec.ingest if candidate.name == ingest_name), None)
    if ingest is not None and ingest.operation in _ONLY_INSERTS:
        return False
    stored = {} if observed.table is None else observed.table.history.properties
    given = spec.properties.get(_UPDATES) or stored.get(_UPDATES) or ""
    return given.rpartition(".")[2] != _ALLOW
