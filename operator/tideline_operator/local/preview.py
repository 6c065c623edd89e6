"""`tideline run --dry-run`: one look at every table, what would be done first, and what would
become of the first files.

Nothing is written, locked or kept: another `tideline run` may be at work on the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tideline.clock import Clock
from tideline_operator.decide.actions import Blocked, PlannedAction, Start
from tideline_operator.decide.planner import plan
from tideline_operator.launch.launcher import Launcher
from tideline_operator.local.reconciler import SET_ASIDE
from tideline_operator.local.rehearsal import Rehearsal, rehearse
from tideline_operator.local.status_file import read_status
from tideline_operator.observe.observation import Observer
from tideline_operator.report.run_report import describe_rest, rest_event
from tideline_operator.report.status import fresh_start
from tideline_operator.resources.resolved import ResolvedTable


@dataclass(frozen=True, slots=True)
class TablePreview:
    """What a run would do first with one table, what it would wait for, and what would become of
    the first files of each ingest."""

    table: str
    actions: tuple[PlannedAction, ...]
    now_ms: int
    rehearsals: tuple[Rehearsal, ...] = ()

    @property
    def exit_codes(self) -> set[int]:
        """The exit codes of a run because of what blocks it, and of its first files."""
        codes = {item.exit_code for item in self.actions if isinstance(item, Blocked)}
        if any(
            rehearsal.result.skipped or rehearsal.result.rows_set_aside
            for rehearsal in self.rehearsals
        ):
            codes.add(SET_ASIDE)
        return codes | {rehearsal.result.exit_code for rehearsal in self.rehearsals}

    def lines(self) -> list[str]:
        """The preview for people."""
        starts = [item for item in self.actions if isinstance(item, Start)]
        first = [f"would start: {start}" for start in starts]
        tried = [line for rehearsal in self.rehearsals for line in rehearsal.lines()]
        lines = [*(first or describe_rest(self.actions, self.now_ms)), *tried]
        return [f"{self.table}  {line}" for line in lines]

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
            "would_ingest": [rehearsal.to_json_object() for rehearsal in self.rehearsals],
        }


def preview_run(
    tables: Iterable[ResolvedTable],
    state_folder: Path,
    clock: Clock,
    open_worker: Callable[[], AbstractContextManager[Launcher]],
) -> list[TablePreview]:
    """Look at the tables as a run that starts now would. `open_worker` gives what reads files."""
    observer = Observer(clock)
    previews = []
    with open_worker() as launcher:
        for table in tables:
            status = fresh_start(table, read_status(state_folder, table))
            observed = observer.observe(table, status)
            now_ms = clock.now_ms()
            actions = plan(table, status, observed, now_ms)
            is_blocked = any(isinstance(item, Blocked) for item in actions)
            tried = () if is_blocked else tuple(rehearse(table, observed, launcher, clock))
            previews.append(TablePreview(table.name, actions, now_ms, tried))
    return previews
