"""Recovering a table from writers that died: what writers and services do before they begin."""

from __future__ import annotations

from dataclasses import replace

from tideline.hudi.recovery.execute import (
    FailedWrites,
    RolledBack,
    execute_failed_writes_rollback,
    find_failed_writes,
)
from tideline.hudi.recovery.sweep import sweep_leftovers
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant


def execute_recovery(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[RolledBack, ...]:
    """Roll back what is pending of dead writers, then sweep up what lies around elsewhere.

    Call under the table lock, with the timeline as it is then; it has changed when anything was
    rolled back. Dying in between leaves what the next recovery finds.
    """
    done = execute_failed_writes_rollback(table, timeline, policy)
    sweep_leftovers(table, timeline, policy)
    return done


def find_recoverable_writes(
    table: HoodieTable, timeline: ActiveTimeline, policy: FailedWrites
) -> tuple[Instant, ...]:
    """The pending writes that a recovery on request rolls back, newest first.

    Among them are plans that cannot be run because they cannot be read.
    """
    return find_failed_writes(table, timeline, replace(policy, gives_up_unreadable=True))
