"""What a time means that somebody gives, and the ends of a range of commits.

Where instants say when they completed, ranges are about these times, as in Hudi 1.x, and so is a
read as of a time. Reports and rows have the times at which commits were requested, so that these
are taken as well:

1. A time at which a commit completed is that, whatever else it may be.
2. Else a time at which a commit was requested stands for the time at which it completed.
3. Any other time is itself.

No two of these times are the same while all writers take one lock and their clocks agree (Hudi:
SkewAdjustingTimeGenerator). Others there are: two processes that each lock in themselves, clocks
further apart than is waited, writers of Hudi 1.0.1, which made completion times in the zone of
their machine. With (2) before (1) a reader that has come to the completion of one commit would then
begin after the completion of another, and pass over what completed in between.

Where a stream or an earlier read ended is exact: (2) is never asked. What was no request yet when
a stream began after it may be one later.
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.read.point_in_time import BEGINNING, Point, point_in_time
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.timeline_as_of import archived_since
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class AskedRange:
    """Later than `begin` and not later than `end`, as they were given; None is now.

    `is_exact`: both are times at which commits took effect, as offsets are.
    """

    begin: InstantTime
    end: InstantTime | None = None
    is_exact: bool = False

    @classmethod
    def of(cls, table: HoodieTable, after: Point, until: Point | None = None) -> AskedRange:
        """A range as a caller gives it. Raises ConfigError for what is no time."""
        end = None if until is None else point_in_time(table, until)
        return cls(point_in_time(table, after), end)

    def meant(self, table: HoodieTable, timeline: ActiveTimeline) -> AskedRange:
        """The range with exact ends."""
        if self.is_exact:
            return self
        end = None if self.end is None else time_meant(table, timeline, self.end)
        return AskedRange(time_meant(table, timeline, self.begin), end, is_exact=True)


def time_meant(table: HoodieTable, timeline: ActiveTimeline, time: InstantTime) -> InstantTime:
    """The completion that a time is or stands for; itself where it is none, and in layouts without
    completion times."""
    if time == BEGINNING or not table.layout.timeline.has_completion_times:
        return time
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    if any(commit.completed_at == time for commit in commits):
        return time
    meant = next((commit.completed_at for commit in commits if commit.time == time), None)
    if timeline.has_archive:
        meant = meant or table.commits.archived_completion(time)
    if meant is None or time in archived_since(table, timeline, time).values():
        return time
    return meant
