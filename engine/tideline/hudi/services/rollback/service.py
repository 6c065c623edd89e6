"""The service `rollback`: pending writes whose writers are gone are undone (`hudi.recovery`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.recovery.execute import RolledBack, plan_instant_rollback
from tideline.hudi.recovery.recover import find_recoverable_writes
from tideline.hudi.services.context import ServiceContext
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.service import TableService
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.services.explanation import Due, Explanation, NotDue
from tideline.services.report import ServiceReport
from tideline.services.run import ServiceRun
from tideline.wording import counted

_NO_WRITER_DIED = NotDue("no writer died")


@dataclass(frozen=True, slots=True)
class UndoneWrite:
    """A rolled back write, as an audit."""

    undone: RolledBack

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        deleted = len(self.undone.deleted)
        words = f"undid {self.undone.instant}, {counted(deleted, 'file')} deleted"
        return ServiceReport(words, self.undone.instant, files_deleted=deleted)

    def to_json_object(self) -> dict[str, Any]:
        """The audit of one write."""
        return {
            "service": ROLLBACK.name,
            "instant": str(self.undone.instant),
            "action": str(self.undone.action),
            "files": [{"path": path, "what": "deleted"} for path in self.undone.deleted]
            + [{"path": path, "what": "written", "bytes": size_bytes}
               for path, size_bytes in self.undone.command_logs.items()],
        }  # fmt: skip


class Rollback(TableService):
    """Undoes what dead writers left. Every writer does so before it writes, unasked."""

    name = "rollback"
    permission = Permission.ROLLBACK
    pending_action = Action.ROLLBACK
    follows: ClassVar[frozenset[str]] = frozenset()

    def settings(self, read: Settings) -> None:
        """It has none of its own; whose writes count as failed, those of writes say."""

    def due(self, facts: DueFacts, read: Settings) -> Due | NotDue:
        failed = ", ".join(str(time) for time in facts.failed_writes)
        return Due(f"the writers of {failed} are gone") if failed else _NO_WRITER_DIED

    def plan(self, context: ServiceContext, timeline: ActiveTimeline) -> Explanation | NotDue:
        failed = find_recoverable_writes(context.table, timeline, context.policy)
        if not failed:
            return _NO_WRITER_DIED
        plans = [plan_instant_rollback(context.table, instant) for instant in failed]
        names = ", ".join(str(instant) for instant in failed)
        paths = tuple(path for plan in plans for path in plan.deleted_paths)
        return Explanation(f"the writers of {names} are gone", paths)

    def execute(self, context: ServiceContext) -> ServiceRun:
        with context.table.lock(context.config.lock_timing).acquire():
            undone = context.roll_back_failed_writes()
        return ServiceRun(
            self, tuple(map(UndoneWrite, undone)), None if undone else _NO_WRITER_DIED
        )


ROLLBACK = Rollback()
