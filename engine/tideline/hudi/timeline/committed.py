"""Which instants' data counts, as a small value that travels to tasks."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime


@dataclass(frozen=True, slots=True)
class CommittedInstants:
    """The completed commits of a timeline; times before `archived_before` are archived ones.

    Those `left_out` are not: the timeline does not show them, the whole one has them.
    What is later than `latest` does not exist for a reader: the newest completed commit, unless it
    is known which archived ones are later than what is shown.
    """

    times: frozenset[InstantTime]
    archived_before: InstantTime | None = None
    latest: InstantTime | None = None
    left_out: frozenset[InstantTime] = frozenset()

    @classmethod
    def of(cls, timeline: ActiveTimeline, until: InstantTime | None = None) -> CommittedInstants:
        """What `timeline` shows, up to and including `until` when given."""
        commits = timeline.of(*COMMIT_ACTIONS).completed()
        times = frozenset(
            instant.time for instant in commits if until is None or instant.time <= until
        )
        return cls(
            times,
            archived_before=timeline.start if timeline.has_archive else None,
            latest=until or (max(times, default=None) if timeline.left_out is None else None),
            left_out=timeline.kept - times,
        )

    def contains(self, time: InstantTime) -> bool:
        """Whether data written at `time` is part of the table."""
        if self.latest is not None and time > self.latest:
            return False
        if time in self.times:
            return True
        is_before = self.archived_before is not None and time < self.archived_before
        return is_before and time not in self.left_out
