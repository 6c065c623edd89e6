"""The service `clustering`: small file groups are rewritten as larger ones, sorted if asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.clustering.execute import (
    NAME,
    execute_clustering,
    plan_due_clustering,
    schedule_clustering,
)
from tideline.hudi.services.clustering.plan import clustering_due
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.row_service import RowService
from tideline.hudi.services.service import InlineStep
from tideline.hudi.services.table_history import clusterings as clusterings_of
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.service import Concurrency


class Clustering(RowService):
    """Rewrites file groups. In timeline layout 1 plans are replacecommits, known by content."""

    name = NAME
    permission = Permission.CLUSTERING
    asks_for_buckets = True
    pending_action = Action.REPLACECOMMIT
    concurrency = Concurrency.LATER_WRITES
    refuses_updates = True
    completed_as = Action.REPLACECOMMIT
    execute_plan = staticmethod(execute_clustering)
    inline_settings = ("hoodie.clustering.inline", "hoodie.clustering.schedule.inline")
    whenever_asked: ClassVar[Mapping[str, str]] = {
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.async.max.commits": "1",
    }

    def settings(self, read: Settings) -> ClusteringConfig:
        return ClusteringConfig.from_settings(read)

    def turns(self, read: Settings, *, compacts_by_default: bool) -> frozenset[InlineStep]:
        schedules = read.boolean("hoodie.clustering.schedule.inline")
        wanted = {
            InlineStep.RUN: read.boolean("hoodie.clustering.inline"),
            InlineStep.SCHEDULE: read.boolean("hoodie.clustering.async.enabled") or schedules,
        }
        return frozenset(turn for turn, is_wanted in wanted.items() if is_wanted)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        reason = clustering_due(facts, self.settings(read))
        return reason if isinstance(reason, NotDue) else Due(reason)

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        table, config = context.table, self.settings(context.settings)
        plan = plan_due_clustering(table, timeline, config, table.instants.next_time(timeline))
        return plan if isinstance(plan, NotDue) else plan.explain()

    def write_plan(
        self, context: ServiceContext, timeline: ActiveTimeline, *, is_async: bool
    ) -> Instant | NotDue:
        config = self.settings(context.settings)
        commits_max = config.async_commits_max if is_async else config.inline_commits_max
        return schedule_clustering(
            context.table, config, commits_max=commits_max, timeline=timeline
        )

    def pending(self, table: HoodieTable, timeline: ActiveTimeline) -> tuple[Instant, ...]:
        found = timeline.pending().of(Action.REPLACECOMMIT, Action.CLUSTERING)
        known = clusterings_of(table, found)
        return tuple(instant for instant in found if instant.time in known)

    def owns(self, instant: Instant, clusterings: frozenset[InstantTime]) -> bool:
        if instant.action is Action.REPLACECOMMIT:
            return instant.time in clusterings
        return instant.action is Action.CLUSTERING


CLUSTERING = Clustering()
