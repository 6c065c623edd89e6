"""Whether the metadata table says what a reader's timeline has, and no more.

What is said of one file is true for ever. What is said of more than a file, such as where a key is,
is that of the newest commit, so that it is compared after it was read:

1. The table's timeline has still the same completed instants. So nothing was made anew, of later
   commits, while it was read.
2. Every commit of the metadata table is completed in the timeline, or so old that it is archived.
   One that is not comes from a writer that is about to complete its commit, or that died there.
3. The partitions are listed still. One that was dropped may have been read when parts were gone.
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime


def is_in_step(
    table: HoodieTable,
    metadata: MetadataTable,
    timeline: ActiveTimeline,
    partitions: Collection[str],
) -> bool:
    """Whether what was just read of these partitions is what `timeline` shows. Raises what the
    timelines raise."""
    commits = metadata.timeline().of(Action.DELTACOMMIT).completed()
    return (
        set(partitions) <= set(table.properties.reload().metadata_partitions)
        and all(_is_completed(timeline, commit.time) for commit in commits)
        and set(timeline.completed()) == set(table.timeline().completed())
    )


def _is_completed(timeline: ActiveTimeline, time: InstantTime) -> bool:
    """Instants that make partitions are of zeros, before all others."""
    found = timeline.find(time)
    if found is not None:
        return found.is_completed
    return timeline.start is None or time < timeline.start
