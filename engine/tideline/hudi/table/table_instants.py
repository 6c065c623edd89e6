"""The instants of an open table: its active timeline, the zone of their times, new times."""

from __future__ import annotations

from tideline.errors import ConfigError, ConflictError
from tideline.hudi.table.table_properties import TableProperties
from tideline.hudi.timeline.active import ActiveTimeline, TimelineStore
from tideline.hudi.timeline.instant import Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import KNOWN_UTC, KnownZone, ZoneBasis, zone_of_objects
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone

CLOCK_SKEW_S_MAX = 0.2
"""How far clocks of writers may differ (Hudi's default of maxExpectedClockSkew)."""
ONE_CLOCK_WAIT_S = 0.001
"""What is waited where all writers read one clock."""


class TableInstants:
    """What is read is always current."""

    def __init__(self, properties: TableProperties) -> None:
        self._properties = properties
        self._store = properties.store
        self._clock = properties.clock
        self._zone_name: str | None = None
        self._timelines: TimelineStore | None = None

    @property
    def timelines(self) -> TimelineStore:
        """The timeline's objects, in the table's layout."""
        layout = self._properties.layout.timeline
        if self._timelines is None or self._timelines.layout != layout:
            self._timelines = TimelineStore(self._store, layout, self._clock)
        return self._timelines

    def load(self, own: InstantTime | None = None) -> ActiveTimeline:
        """The active timeline as it is now, `own` being an instant of the caller's."""
        found = self.timelines.load(own)
        if found.is_moving or not len(found):
            # Another process may have changed the table's version.
            self._properties.reload()
            found = self.timelines.load(own)
        return found

    def declare_zone(self, name: str | None) -> None:
        """Set the time zone of the table's instants, over its own property; no name sets none.

        Holds for as long as the table is open. Raises ConfigError for an unknown zone, and for any
        but UTC where the table is UTC by its properties.
        """
        if name is not None and name.strip():
            self._properties.config.zone_declared_as(name)
            self._zone_name = name

    @property
    def zone_is_declared(self) -> bool:
        """Whether properties or the caller say the time zone of the instants."""
        return self._declared_zone is not None

    @property
    def zone(self) -> TimelineZone:
        """The zone that new instants are made in: UTC unless declared otherwise."""
        return self._declared_zone or UTC_ZONE

    def known_zone(self, timeline: ActiveTimeline) -> KnownZone:
        """The zone of the instants, and how it is known; asks the store nothing."""
        if self._properties.config.timeline_timezone == UTC_ZONE.name:
            return KNOWN_UTC
        if (declared := self._declared_zone) is not None:
            return KnownZone(declared, ZoneBasis.DECLARED)
        return zone_of_objects(timeline.made_ms)

    def require_zone(self, timeline: ActiveTimeline) -> KnownZone:
        """The same for writers. Raises ConfigError when it is visibly not UTC, nor declared."""
        known = self.known_zone(timeline)
        if known.refusal is not None:
            example = known.example.time if known.example else None
            raise ConfigError(known.refusal, table=self._store.uri, instant=example)
        return known

    def next_time(self, timeline: ActiveTimeline | None = None) -> InstantTime:
        """An instant time above the clock, in the table's zone, and everything in the timeline.

        Without a timeline in the one as it is now. Where another writer may exist, call it and
        `create_requested` under the table lock.
        """
        timeline = self.load() if timeline is None else timeline
        return self.zone.next_time(self._clock.now_ms(), timeline.newest_time())

    def reserve_time(self, timeline: ActiveTimeline | None = None) -> InstantTime:
        """An instant time as `next_time` gives it, which no other process will give.

        Call under the table lock. Where completion times decide what readers see, others get the
        lock only once the clocks of all writers have passed it as well (see `HeldLock`).
        """
        time = self.next_time(timeline)
        if not self._properties.layout.timeline.has_completion_times:
            return time
        if self._store.local_path("") is not None:
            self._clock.sleep(ONE_CLOCK_WAIT_S)
        elif not self._properties.held_lock.hold_for(CLOCK_SKEW_S_MAX):
            self._clock.sleep(CLOCK_SKEW_S_MAX)
        return time

    def completed_now(self, pending: Instant, timeline: ActiveTimeline | None = None) -> Instant:
        """`pending` as it completes now, with a time reserved where the layout has such.

        Call under the table lock. Raises ConflictError when it is completed already.
        """
        completed = pending.in_state(State.COMPLETED)
        if not self._properties.layout.timeline.has_completion_times:
            return completed
        timeline = self.load() if timeline is None else timeline
        if timeline.completed_as(completed):
            raise ConflictError(
                "another process already completed this instant",
                table=self._store.uri,
                instant=pending,
            )
        return pending.in_state(State.COMPLETED, self.reserve_time(timeline))

    def complete(self, pending: Instant, body: bytes) -> Instant:
        """Make an inflight instant visible, under the table lock; see `TimelineStore.complete`."""
        completed = self.completed_now(pending)
        return self.timelines.complete(pending, body, at=completed.completion_time)

    @property
    def _declared_zone(self) -> TimelineZone | None:
        if self._zone_name is not None:
            return self._properties.config.zone_declared_as(self._zone_name)
        return self._properties.config.declared_zone
