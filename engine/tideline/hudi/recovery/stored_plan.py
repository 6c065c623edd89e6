"""The plan of a rollback that another process began: reading it, and whether it may be followed.

It may be another engine's, or damaged. Followed it removes files and hides log blocks for good, so
before anything is touched:

1. Every file to delete must be a data file that carries the undone instant in its name, in a place
   that is this table's (`deletion_scope`).
2. The instant to undo must not be one that readers count on: no savepoint keeps it, it is not
   archived as a commit, and as a completed one (Hudi rolls those back on request) it must be the
   newest, since later ones are built on it.
"""

from __future__ import annotations

import logging

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container
from tideline.hudi.recovery.plan import RollbackPlan
from tideline.hudi.recovery.undo import deletion_scope
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

_log = logging.getLogger(__name__)


def read_plan(table: HoodieTable, rollback: Instant) -> RollbackPlan | None:
    """The plan of a pending rollback; None when it cannot be read."""
    path = _path(table, rollback)
    try:
        return RollbackPlan.from_avro(decode_container(table.store.get(path), path=path), path=path)
    except (CorruptTableError, ObjectNotFoundError) as error:
        _log.warning("cannot read the plan of a pending rollback, making a new one: %s", error)
        return None


def check_plan(table: HoodieTable, rollback: Instant, plan: RollbackPlan) -> None:
    """Raise CorruptTableError, naming path and reason, for a plan that must not be followed."""
    reason = _needed_because(table, table.timeline(), plan.instant)
    if reason is not None:
        raise CorruptTableError(
            f"a pending rollback would undo {plan.instant}, but {reason}; nothing was deleted. "
            "Delete the rollback's objects if it is not wanted",
            table=table.uri,
            instant=rollback.time,
            path=_path(table, rollback),
        )
    deletion_scope(table, plan).check(plan.deleted_paths)


def was_committed(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> bool:
    """Whether an instant that the timeline lacks is one that it archived as a commit."""
    if not timeline.is_committed(time):
        return False
    try:
        return not table.commits.archive().lacks(time)
    except (CorruptTableError, ObjectNotFoundError):
        return True


def _needed_because(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> str | None:
    if time in timeline.savepointed_times():
        return "a savepoint keeps it"
    now = timeline.find(time)
    if now is None:
        return "it is an archived commit" if was_committed(table, timeline, time) else None
    later = timeline.of(*COMMIT_ACTIONS).completed().after(time).first()
    if now.is_completed and later is not None:
        return f"it is completed and commit {later.time} came after it"
    return None


def _path(table: HoodieTable, rollback: Instant) -> str:
    return table.timelines.path(rollback.in_state(State.REQUESTED))
