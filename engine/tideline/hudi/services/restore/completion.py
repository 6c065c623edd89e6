"""When instants completed: what their names say, or the modification times of their files.

Copying a table of version 6 gives all its files the time of the copy. Then every instant seems to
have completed after the newest one began, which writers in sequence never do, and the
instants' own times stand in. Stores that keep whole seconds give equal times; a comparison breaks
ties by instant.
Source: Hudi's CompletionTimeQueryViewV1, CompletionTimeQueryViewV2.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import WRITE_ACTIONS, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone


def read_completion_times(
    table: HoodieTable, timeline: ActiveTimeline
) -> Mapping[InstantTime, int]:
    """Milliseconds since the epoch at which each completed write of the timeline completed."""
    layout = table.timelines.layout
    if layout.has_completion_times:
        return {
            instant.time: table.instants.zone.epoch_ms(instant.completion_time)
            for instant in timeline.writes().completed()
            if instant.completion_time is not None
        }
    modified_ms: dict[Instant, int] = {}
    for info in table.store.list_directory(layout.directory).objects:
        instant = layout.parse(info.path.rpartition("/")[2])
        if instant is not None and instant.is_completed and instant.action in WRITE_ACTIONS:
            modified_ms[instant] = info.modified_ms
    return completion_times(timeline, modified_ms, table.instants.zone)


def completion_times(
    timeline: ActiveTimeline, modified_ms: Mapping[Instant, int], zone: TimelineZone = UTC_ZONE
) -> Mapping[InstantTime, int]:
    """The same from the modification times of the completed instants' files."""
    if _are_of_a_copy(modified_ms, zone):
        return {instant.time: zone.epoch_ms(instant.time) for instant in modified_ms}
    start = timeline.start
    return {
        instant.time: zone.epoch_ms(instant.time)
        if start is not None and instant.time < start
        else modified
        for instant, modified in modified_ms.items()
    }


def _are_of_a_copy(modified_ms: Mapping[Instant, int], zone: TimelineZone) -> bool:
    if len(modified_ms) < 2:
        return False
    newest_ms = max(zone.epoch_ms(instant.time) for instant in modified_ms)
    return min(modified_ms.values()) >= newest_ms
