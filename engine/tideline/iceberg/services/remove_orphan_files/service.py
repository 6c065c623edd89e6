"""The service `remove_orphan_files`: files that no metadata leads to are deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tideline.iceberg.services.due_facts import IcebergFacts
from tideline.iceberg.services.option_reader import OptionReader
from tideline.iceberg.services.remove_orphan_files.execute import (
    OrphanRun,
    execute_orphans,
    plan_orphans,
)
from tideline.iceberg.services.remove_orphan_files.plan import (
    DROPPED_TABLES,
    OrphanOptions,
    OrphanPlan,
)
from tideline.iceberg.services.service import DRY_RUN, IcebergContext, IcebergService
from tideline.iceberg.services.table_setting import OLDER_THAN_AGE_MS
from tideline.services.benefit import Benefit
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.run import ServiceRun
from tideline.wording import counted


class RemoveOrphanFiles(IcebergService):
    """Searches the table's folders, which takes long, and rests afterwards. Expired snapshots may
    leave files that are no longer known."""

    name = "remove_orphan_files"
    operation_kind = "orphans"
    arguments = frozenset({OLDER_THAN_AGE_MS, DROPPED_TABLES})
    deletes_files = True
    pause_ms = 86_400_000
    follows: ClassVar[frozenset[str]] = frozenset({"expire_snapshots"})

    def options(self, settings: Mapping[str, str], now_ms: int) -> OrphanOptions:
        """The settings, typed. Raises ConfigError."""
        read = OptionReader({name: settings[name] for name in settings if name != DRY_RUN})
        options = OrphanOptions(
            older_than_ms=read.moment(OLDER_THAN_AGE_MS, now_ms),
            dropped_tables=tuple(filter(None, read.text(DROPPED_TABLES, "").split(","))),
        )
        read.refuse_others("a search for orphan files")
        return options

    def due(self, _: IcebergFacts, __: Mapping[str, str]) -> Due | NotDue:
        return Due("a search is due")

    def plan(self, context: IcebergContext, _: IcebergFacts) -> Explanation | NotDue:
        plan = self._search(context)
        if not plan.orphans:
            return _no_orphans(plan)
        return Explanation(
            f"{counted(len(plan.orphans), 'orphan file')} could be deleted{plan.shared_words}",
            tuple(orphan.location for orphan in plan.orphans),
            bytes_deleted=plan.size_bytes,
            benefit=Benefit(bytes_stored=plan.size_bytes),
        )

    def execute(self, context: IcebergContext) -> ServiceRun:
        plan = self._search(context)
        if context.settings.get(DRY_RUN) == "true":
            done = OrphanRun(plan, is_dry=True)
        else:
            done = execute_orphans(context.table.operations, plan)
        if not plan.orphans:
            return ServiceRun(self, not_due=_no_orphans(plan))
        return ServiceRun(self, (done,))

    def _search(self, context: IcebergContext) -> OrphanPlan:
        options = self.options(context.settings, context.clock.now_ms())
        return plan_orphans(context.table.operations, options, clock=context.clock)


def _no_orphans(plan: OrphanPlan) -> NotDue:
    return NotDue(f"there are no orphan files{plan.shared_words}")


REMOVE_ORPHAN_FILES = RemoveOrphanFiles()
