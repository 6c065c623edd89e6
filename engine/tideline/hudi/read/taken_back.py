"""Times at which the table was something that a restore took back later.

A commit that was undone completed after it was requested, and its request is in the plan of the
restore: from the first such request until the restore the table was something else than what is
left of it. Where the plan cannot be read, what is later than the newest commit before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.errors import CorruptTableError
from tideline.hudi.read.incremental import effective_time
from tideline.hudi.services.restore.stored_plan import read_restore_plan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The restore that took back what the table was at a time: it is again what it was by `kept`,
    None where no commit is left that says when, and from `done` on what it became."""

    restore: Instant
    kept: InstantTime | None

    @property
    def done(self) -> InstantTime:
        return effective_time(self.restore)


def taken_back(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> TakenBack | None:
    """The restore that took back what the table was at `time`, None where it was not."""
    commits = [effective_time(instant) for instant in timeline.of(*COMMIT_ACTIONS).completed()]
    for restore in timeline.of(Action.RESTORE).completed():
        if effective_time(restore) <= time:
            continue
        try:
            first = min(read_restore_plan(table, restore).times, default=None)
        except CorruptTableError:
            kept = max((commit for commit in commits if commit < restore.time), default=None)
            if kept is None or kept < time:
                return TakenBack(restore, kept)
            continue
        if first is not None and first <= time:
            return TakenBack(
                restore, max((commit for commit in commits if commit < first), default=None)
            )
    return None
