"""What every commit carries on from the one before: the checkpoints of ingests.

1. The commits are asked newest first, in the order in which they completed: each was made under the
   table lock, so the last one knew all before it.
2. One that carries something ends the search, and so does one that says that there was nothing.
3. Where no active commit says either, all of them another engine's, the archive is asked.

In tables without completion times the order is that of requests. There a commit may have completed
before an older one that carries something, so none says that there was nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried import read_carried
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant

CARRIES = "tideline.carries"
"""Entry of a commit which looked for carried values and found none before it, nor brought any."""
NOTHING = "nothing"


def carried_metadata(
    table: HoodieTable, timeline: ActiveTimeline, own: Iterable[str] = ()
) -> dict[str, str]:
    """Ingest checkpoints of the newest commit that has any, archived ones last.

    Every commit carries them on, because archiving may take the one that wrote them. `own` are the
    names of what the commit brings itself. Call under the table lock: what the archive says is
    remembered for the next writer.
    """
    has_order = table.timelines.layout.has_completion_times
    for instant in _newest_first(timeline):
        extra = table.timelines.read_commit(instant).extra_metadata
        found = {key: extra[key] for key in extra if key.startswith(CARRIED_PREFIX)}
        if found:
            return found
        if has_order and extra.get(CARRIES) == NOTHING:
            break
    else:
        if timeline.has_archive:
            found = read_carried(table.archived(), CARRIED_PREFIX, remembers=True)
            if found:
                return found
    brings = any(key.startswith(CARRIED_PREFIX) for key in own)
    return {CARRIES: NOTHING} if has_order and not brings else {}


def _newest_first(timeline: ActiveTimeline) -> list[Instant]:
    completed = timeline.of(*COMMIT_ACTIONS).completed().instants
    return sorted(completed, key=lambda one: (one.completed_at or one.time, one), reverse=True)
