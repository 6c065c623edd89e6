"""The service `indexing`: indexes that are wanted and missing are made."""

from __future__ import annotations

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.indexing.config import IndexingConfig
from tideline.hudi.services.indexing.execute import NAME, make_missing
from tideline.hudi.services.indexing.plan import find_due
from tideline.hudi.services.service import TableService
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.services.service import Concurrency


class Indexing(TableService):
    """Makes the partitions of the metadata table that `tideline.indexes` names."""

    name = NAME
    permission = Permission.REPAIR
    concurrency = Concurrency.ANY_ROWS
    goes_first = True
    """The fewer rows there are, the less is read."""
    holds_rows = True

    def settings(self, read: Settings) -> IndexingConfig:
        return IndexingConfig.from_settings(read)

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        return find_due(facts, self.settings(read))

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        found = self.due(context.facts(timeline), context.settings)
        return found if isinstance(found, NotDue) else Explanation(found.reason)

    def execute(self, context: ServiceContext) -> ServiceRun:
        found = self.plan(context, context.table.timeline())
        if isinstance(found, NotDue):
            return ServiceRun(self, not_due=found)
        done = make_missing(context.table, self.settings(context.settings), context.given)
        return ServiceRun(self, (done,) if done.made else ())


INDEXING = Indexing()
