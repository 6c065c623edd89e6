"""What every commit carries on from the one before: the checkpoints of ingests."""

from __future__ import annotations

from tideline.timeline.active import ActiveTimeline, TimelineStore
from tideline.timeline.instant import COMMIT_ACTIONS
from tideline.write.conflict import CHECKPOINT_PREFIX


def carried_metadata(timelines: TimelineStore, timeline: ActiveTimeline) -> dict[str, str]:
    """Ingest checkpoints of the newest commit that has any.

    Every commit carries them on, because archiving may take the one that wrote them.
    """
    for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
        extra = timelines.read_commit(instant).extra_metadata
        found = {key: extra[key] for key in extra if key.startswith(CHECKPOINT_PREFIX)}
        if found:
            return found
    return {}
