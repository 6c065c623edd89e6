"""`tideline run --dry-run`: one look at every table, and what would be done first.

Nothing is started, locked or kept: another `tideline run` may be at work on the same tables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideline.clock import Clock
from tideline_operator.decide.actions import Blocked, PlannedAction, Start
from tideline_operator.decide.planner import plan
from tideline_operator.local.status_file import read_status
from tideline_operator.observe.observation import Observer
from tideline_operator.report.run_report import describe_rest, rest_event
from tideline_operator.report.status import fresh_start
from tideline_operator.resources.resolved import ResolvedTable


@dataclass(frozen=True, slots=True)
class TablePreview:
    """What a run would do first with one table, and what it would wait for."""

    table: str
    actions: tuple[PlannedAction, ...]
    now_ms: int

    @property
    def exit_code(self) -> int:
        """The exit code of a run because of what blocks it; 0 for nothing."""
        codes = (item.exit_code for item in self.actions if isinstance(item, Blocked))
        return max(codes, default=0)

    def lines(self) -> list[str]:
        """The preview for people."""
        starts = [item for item in self.actions if isinstance(item, Start)]
        if not starts:
            return [f"{self.table}  {line}" for line in describe_rest(self.actions, self.now_ms)]
        return [f"{self.table}  would start: {start}" for start in starts]

    def to_json_object(self) -> dict[str, Any]:
        """The preview for machines."""
        starts = [
            {
                "kind": item.operation.kind.value,
                "subject": item.operation.subject,
                "reason": item.reason,
                "benefit_per_core_second": None if item.rate is None else round(item.rate),
            }
            for item in self.actions
            if isinstance(item, Start)
        ]
        rest = [item for item in self.actions if not isinstance(item, Start)]
        return {
            "event": "planned",
            "table": self.table,
            "would_start": starts,
            "next": [rest_event(item, self.now_ms) for item in rest],
        }


def preview_run(
    tables: Iterable[ResolvedTable], state_folder: Path, clock: Clock
) -> list[TablePreview]:
    """Look at the tables as a run that starts now would."""
    observer = Observer(clock)
    previews = []
    for table in tables:
        status = fresh_start(table, read_status(state_folder, table))
        observed = observer.observe(table, status)
        now_ms = clock.now_ms()
        previews.append(TablePreview(table.name, plan(table, status, observed, now_ms), now_ms))
    return previews
