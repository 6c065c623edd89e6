"""What every commit carries on from the one before: the checkpoints of ingests."""

from __future__ import annotations

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried import read_carried
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX
from tideline.hudi.timeline.instant import COMMIT_ACTIONS


def carried_metadata(table: HoodieTable, timeline: ActiveTimeline) -> dict[str, str]:
    """Ingest checkpoints of the newest commit that has any, archived ones last.

    Every commit carries them on, because archiving may take the one that wrote them. Call under
    the table lock: what the archive says is remembered for the next writer.
    """
    for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
        extra = table.timelines.read_commit(instant).extra_metadata
        found = {key: extra[key] for key in extra if key.startswith(CARRIED_PREFIX)}
        if found:
            return found
    if not timeline.has_archive:
        return {}
    return read_carried(table.archived(), CARRIED_PREFIX, remembers=True)
