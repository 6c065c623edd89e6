"""Whether what was read of the metadata table is what a reader's timeline has, and no more.

What is said of one file is true for ever. What is said of more than a file, such as where a key is,
is that of the newest commit, so that it is compared after it was read:

1. Every commit in the timeline that the metadata table was read by is completed in the reader's.
   One that is not comes from a writer that is about to complete its commit, or that died there;
   or it is a log compaction, which changes nothing.
2. The metadata table's timeline has still the same completed instants, and the table's too. So
   nothing was made, dropped or undone in between, which the reader might have seen in part.
3. The partitions are listed still, and Hudi is not at work on them: one that it builds lacks the
   commits that came since it began.
"""

from __future__ import annotations

from collections.abc import Collection

from tideline.hudi.metadata_table.index_build import are_being_built
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime


def was_in_step(
    table: HoodieTable,
    metadata: MetadataTable,
    read_by: ActiveTimeline,
    timeline: ActiveTimeline,
    partitions: Collection[str],
) -> bool:
    """Whether what was read of these partitions, by the metadata table's timeline `read_by`, is
    what `timeline` shows. Call after the last look. Raises what the timelines raise."""
    commits = read_by.of(Action.DELTACOMMIT).completed()
    return (
        all(
            _is_completed(timeline, commit.time) or metadata.is_log_compaction(commit.time)
            for commit in commits
        )
        and set(partitions) <= set(table.properties.reload().metadata_partitions)
        and _have_not_moved(read_by, metadata.timeline())
        and _have_not_moved(timeline, now := table.timeline())
        and not are_being_built(table, now, partitions)
    )


def _have_not_moved(before: ActiveTimeline, now: ActiveTimeline) -> bool:
    return set(before.completed()) == set(now.completed())


def _is_completed(timeline: ActiveTimeline, time: InstantTime) -> bool:
    """Instants that make partitions are of zeros, before all others."""
    found = timeline.find(time)
    if found is not None:
        return found.is_completed
    return timeline.start is None or time < timeline.start
