"""The timeline as it was at a time, where instants say when they completed.

Commits of the active timeline count by their completions. What was archived counts as committed
wherever a timeline shows it, so that what completed later is left out by its instants. An archive
is in the order of requests: a commit that was requested first is archived first, and may have
completed last.
"""

from __future__ import annotations

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import LISTING_MARGIN_MS, ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.lsm_history import LsmHistory


def timeline_as_of(
    table: HoodieTable, timeline: ActiveTimeline, time: InstantTime
) -> ActiveTimeline:
    """What had completed by `time`, archived commits included."""
    later = archived_after(table, timeline, time)
    return timeline.completed_by(time).leaving_out(frozenset(later))


def archived_after(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime
) -> dict[InstantTime, InstantTime]:
    """The archived commits that completed after `begin`, each with the time at which it did."""
    found = archived_since(table, timeline, begin).items()
    return {time: completed for time, completed in found if completed > begin}


def archived_since(
    table: HoodieTable, timeline: ActiveTimeline, begin: InstantTime
) -> dict[InstantTime, InstantTime]:
    """Those that completed at `begin` as well. Where the last archival is older there are none, and
    the history is not read."""
    history = table.commits.archive()
    assert isinstance(history, LsmHistory), "layouts with completion times have such an archive"
    written_ms = history.written_ms() if timeline.has_archive else None
    if written_ms is None:
        return {}
    if written_ms + LISTING_MARGIN_MS < table.instants.known_zone(timeline).reading_zone.epoch_ms(
        begin
    ):
        return {}
    return history.commits_completed_since(begin)
