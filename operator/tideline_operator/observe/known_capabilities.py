"""What the engine knows a found table to be: read once, and again while it is not settled.

Properties and timeline are checked in every look, since other engines may change both. The rest
(the newest commits and file names) costs some requests: it is read when a table is first seen and
when its properties change, and in every look while the table is refused, without files or partly
unreadable. For a table that the operator made it is not read, except that clustering and partition
TTL need to know whether another engine gave it a bucket index: that is looked up once. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tideline.hudi.capabilities.look import read_capabilities
from tideline.hudi.capabilities.table_capabilities import IndexEvidence, TableCapabilities
from tideline.hudi.index.bucket_layout import BucketLayout
from tideline.hudi.index.bucket_recognition import names_layout, recognise_buckets
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.ingest.operation.operation import OperationKind
from tideline_operator.decide.adoption import Adoption, AdoptionReason, adoption_of
from tideline_operator.decide.service_settings import wanted_services
from tideline_operator.observe.table_identity import identity_of
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.status import (
    NO_TABLE,
    ConditionType,
    LakeTableStatus,
    OperationPhase,
)

_MAKES_TABLE = (OperationKind.CREATE.value, OperationKind.INGEST.value)


@dataclass(slots=True)
class SeenBuckets:
    """The bucket index of one table; read again while the table has no files.

    `seen` is the table and the timeline that were looked at.
    """

    layout: BucketLayout | None = None
    is_final: bool = False
    seen: tuple[str, ActiveTimeline] | None = None

    def look(self, table: HoodieTable, timeline: ActiveTimeline) -> BucketLayout | None:
        """Read nothing where the properties name an index; otherwise a few requests, once."""
        if names_layout(table.config):
            return recognise_buckets(table, timeline).layout
        # A table without files may get any index with the next commit.
        shown = identity_of(table.config), timeline.completed()
        known, known_until = self.seen or ("", None)
        if known != shown[0] or (not self.is_final and known_until != shown[1]):
            found = recognise_buckets(table, timeline)
            self.layout, self.is_final, self.seen = found.layout, found.is_final, shown
        return self.layout


@dataclass(slots=True)
class KnownCapabilities:
    """What was read of one table; all of it may be lost."""

    capabilities: TableCapabilities | None = None
    buckets: SeenBuckets = field(default_factory=SeenBuckets)

    def decide(
        self,
        table: HoodieTable,
        timeline: ActiveTimeline,
        spec: LakeTableSpec,
        status: LakeTableStatus,
    ) -> Adoption:
        """Decide whether the table may be worked on. Raises the errors of reading it."""
        is_ours = made_by_us(status, identity_of(table.config))
        zone = table.instants.known_zone(timeline)
        if is_ours:
            asks = any(service.asks_for_buckets for service in wanted_services(spec))
            index = IndexEvidence(buckets=self.buckets.look(table, timeline) if asks else None)
            capabilities = TableCapabilities(table.uri, table.config, zone, index)
            return adoption_of(capabilities, spec, is_ours=True)
        known = self.capabilities
        if known is None or known.config.properties != table.config.properties:
            known = read_capabilities(table, timeline)
        capabilities = replace(known, config=table.config, zone=zone)
        decided = adoption_of(capabilities, spec, is_ours=False)
        is_whole = capabilities.index.is_final and not capabilities.unreadable
        self.capabilities = known if is_whole and not decided.is_refused else None
        return decided


def made_by_us(status: LakeTableStatus, identity: str) -> bool:
    """Whether the status shows that the operator made the table of this identity."""
    before = next(
        (condition for condition in status.conditions if condition.type is ConditionType.ADOPTED),
        None,
    )
    if before is None:
        return False
    if before.reason == AdoptionReason.TABLE_MADE.value:
        return status.owned is not None and status.owned.identity == identity
    if before.reason != NO_TABLE:
        return False
    absent_at = before.last_transition_time
    return any(
        item.kind in _MAKES_TABLE
        and item.phase is not OperationPhase.FAILED
        and item.started_at.ms >= absent_at.ms
        for item in status.operations
    )
