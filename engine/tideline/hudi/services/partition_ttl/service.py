"""The service `partition_ttl`: partitions that no writer wrote to for long enough are dropped."""

from __future__ import annotations

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig
from tideline.hudi.services.partition_ttl.execute import (
    NAME,
    audit_partition_ttl,
    expire_partitions,
    plan_table_partition_ttl,
)
from tideline.hudi.services.partition_ttl.plan import find_due
from tideline.hudi.services.service import TableService
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.run import ServiceRun


class PartitionTtl(TableService):
    """Drops partitions past their time, by a write like any other."""

    name = NAME
    permission = Permission.TTL
    asks_for_buckets = True
    inline_settings = ("hoodie.partition.ttl.inline",)
    pause_ms = 86_400_000
    """Partitions do not grow old faster than days pass."""

    def settings(self, read: Settings) -> PartitionTtlConfig:
        return PartitionTtlConfig.from_settings(read)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        return find_due(facts, self.settings(read))

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        plan = plan_table_partition_ttl(context.table, self.settings(context.settings), timeline)
        return plan if isinstance(plan, NotDue) else plan.explain()

    def execute(self, context: ServiceContext) -> ServiceRun:
        done = expire_partitions(context.writer, context.given)
        if isinstance(done, NotDue):
            return ServiceRun(self, not_due=done)
        return ServiceRun(self, (audit_partition_ttl(context.table, done.committed.instant.time),))


PARTITION_TTL = PartitionTtl()
