"""Archival as Hudi's writers do it with `hoodie.archive.beyond.savepoint`.

Commits that are newer than a savepoint go, and the savepointed ones stay before the gap. Hudi's
readers take what was in it for uncommitted; ours have to read it.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import (
    ArchivalDone,
    execute_archival,
    plan_table_archival,
)
from tideline.hudi.services.archival.plan import ArchivalPlan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.services.explanation import NotDue


def archive_beyond_savepoints(table: HoodieTable, config: ArchivalConfig) -> ArchivalDone:
    """One portion; takes the lock itself."""
    with table.lock().acquire():
        return execute_archival(table, config, _plan)


def _plan(
    table: HoodieTable,
    timeline: ActiveTimeline,
    config: ArchivalConfig,
    instants_max: int | None = None,
) -> ArchivalPlan | NotDue:
    saved = timeline.savepointed_times()
    others = tuple(instant for instant in timeline if instant.action is not Action.SAVEPOINT)
    plan = plan_table_archival(table, ActiveTimeline(others), config, instants_max)
    if isinstance(plan, NotDue):
        return plan
    chosen = tuple(instant for instant in plan.instants if instant.time not in saved)
    return replace(plan, instants=chosen) if chosen else NotDue("all others are savepointed")
