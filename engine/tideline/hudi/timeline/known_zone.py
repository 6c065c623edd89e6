"""How well the zone of a table's instants is known, and what follows from it. Pure.

`hoodie.table.timeline.timezone` is UTC, or LOCAL without saying which zone that is. Then the
zone is declared (`tideline.timezone`), or inferred from when the objects of the timeline were made:
the `.requested` object of a write is made within moments of its instant, so that its time by the
store less its digits read as UTC is how far UTC is ahead of the writers, in multiples of 15
minutes.

1. All of them agree on none: UTC. They agree on another distance, or on two an hour apart (daylight
   saving), also where others are UTC (an engine of another zone wrote, too): visibly not UTC.
2. They do not agree, or all objects are of nearly one time (a copy), or there are none: not known.
3. Instants within a quarter of an hour of each other agree by their nature. They count if every
   object was made within a minute of a whole multiple, which those of a copy seldom are.

An instant right after another is only the next one free, and says nothing. Clocks may be off by
minutes; distances that no zone has are those of copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import pairwise

from tideline.errors import CorruptTableError
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone, offset_text

SAMPLES_MAX = 30
_STEP_MS = 15 * 60_000
_STEPS_PER_HOUR = 4
_AHEAD_STEPS_MAX = 14 * _STEPS_PER_HOUR
_BEHIND_STEPS_MAX = 12 * _STEPS_PER_HOUR
_TIGHT_MS = 60_000
_NEXT_FREE_MS = 10
_AGREEING = 0.8
_ELSEWHERE_MIN = 2
_STARTED_AT_ONCE = (Action.COMMIT, Action.DELTACOMMIT)


@dataclass(frozen=True, slots=True)
class StartedInstant:
    """When a write started: by its digits, and by the store's clock."""

    time: InstantTime
    made_ms: int

    @property
    def lag_ms(self) -> int:
        """How much later the store's clock is than the digits read as UTC."""
        return self.made_ms - self.time.epoch_ms()

    @property
    def steps(self) -> int:
        """The same in multiples of 15 minutes."""
        return round(self.lag_ms / _STEP_MS)

    @property
    def is_tight(self) -> bool:
        return abs(self.lag_ms - self.steps * _STEP_MS) <= _TIGHT_MS


class ZoneBasis(Enum):
    """How the zone of a table's digits is known."""

    STATED = "the table is UTC by its properties"
    DECLARED = "declared"
    SEEN = "its objects were made at their instants"
    NOT_UTC = "its objects were made at other times than their instants read as UTC"
    UNSURE = "nothing shows the time zone of its instants"


@dataclass(frozen=True, slots=True)
class KnownZone:
    """The zone in which instants are made and aged, and how it is known.

    What is not declared is taken for UTC. `example` is the newest instant by which it was seen.
    """

    zone: TimelineZone = UTC_ZONE
    basis: ZoneBasis = ZoneBasis.STATED
    example: StartedInstant | None = None

    @property
    def ahead_minutes(self) -> int:
        """How far the example's digits are ahead of UTC."""
        return -self.example.steps * 15 if self.example else 0

    @property
    def knows_age(self) -> bool:
        """Whether the age of an instant is known."""
        return self.basis not in (ZoneBasis.NOT_UTC, ZoneBasis.UNSURE)

    @property
    def reading_zone(self) -> TimelineZone:
        """What a moment is looked up in: of an undeclared zone what its objects show."""
        if self.basis is ZoneBasis.NOT_UTC:
            return TimelineZone.of_offset(self.ahead_minutes)
        return self.zone

    @property
    def refusal(self) -> str | None:
        """Why nothing is written; None when nothing speaks against it."""
        if self.basis is not ZoneBasis.NOT_UTC or self.example is None:
            return None
        return (
            f"the table's instants are not UTC: the digits of {self.example.time} were written at "
            f"{_utc_text(self.example.made_ms)} by the time of their object, so they are "
            f"{offset_text(self.ahead_minutes)} from UTC, and "
            "hoodie.table.timeline.timezone is LOCAL, which names no zone. Declare the zone that "
            f"the table's other writers run in, such as America/Los_Angeles, as tideline.timezone "
            "(an option or a property of the table, `tideline declare`, or timezone of the "
            "LakeTable); UTC if the objects are copies, or the writers run in UTC by now"
        )

    @property
    def warning(self) -> str | None:
        """What a person should know although work continues."""
        if self.basis is not ZoneBasis.UNSURE:
            return None
        return (
            "nothing shows the time zone of the table's instants (hoodie.table.timeline.timezone "
            "is LOCAL, and the times of its objects do not show it), so they are taken for UTC; "
            "declare it as tideline.timezone"
        )


KNOWN_UTC = KnownZone()
AGE_UNKNOWN = (
    "the age of an instant is unknown until the table's time zone is declared (tideline.timezone)"
)
"""Why everything that depends on age waits."""


def zone_of_objects(made_ms: Mapping[Instant, int]) -> KnownZone:
    """What is known of an undeclared zone from when each state's object was made."""
    return infer_zone(started_instants(made_ms))


def doubt_of(zone: TimelineZone, made_ms: Mapping[Instant, int]) -> str | None:
    """Why a declared zone may be a mistake; None when the newest objects fit or say nothing.

    A doubt is no refusal: the writers may just have moved to that zone.
    """
    seen = infer_zone(started_instants(made_ms))
    if seen.example is None:
        return None
    time, made = seen.example.time, seen.example.made_ms
    moments_ms = (zone.earliest_ms(time), zone.epoch_ms(time))
    if min(abs(made - moment_ms) for moment_ms in moments_ms) < _STEP_MS:
        return None
    return (
        f"the newest instants look like {offset_text(seen.ahead_minutes)} from UTC ({time} was "
        f"written at {_utc_text(made)}), which {zone} is not then"
    )


def started_instants(made_ms: Mapping[Instant, int]) -> tuple[StartedInstant, ...]:
    """The newest instants that say something, of all states with the times of their objects."""
    digits = {
        time: ms for time in {made_at.time for made_at in made_ms} if (ms := _digits_ms(time))
    }
    times = sorted(digits)
    follows = {
        later
        for earlier, later in pairwise(times)
        if digits[later] - digits[earlier] <= _NEXT_FREE_MS
    }
    requested = [
        (instant, made)
        for instant, made in made_ms.items()
        if instant.state is State.REQUESTED
        and instant.time in digits
        and instant.time not in follows
    ]
    # A clustering is a replacecommit, too, and may be planned for long before it starts.
    writes = [pair for pair in requested if pair[0].action in _STARTED_AT_ONCE]
    replacing = [pair for pair in requested if pair[0].action is Action.REPLACECOMMIT]
    found = (StartedInstant(instant.time, made) for instant, made in writes or replacing)
    return tuple(sorted(found, key=lambda instant: instant.time)[-SAMPLES_MAX:])


def infer_zone(started: Sequence[StartedInstant]) -> KnownZone:
    """What the objects of the newest writes say about the zone of their digits."""
    possible = [
        instant for instant in started if -_AHEAD_STEPS_MAX <= instant.steps <= _BEHIND_STEPS_MAX
    ]
    in_utc = [instant for instant in possible if instant.steps == 0]
    # Among writers in UTC one that was merely slow to begin is none of another zone.
    apart = [
        instant for instant in possible if instant.steps != 0 and (instant.is_tight or not in_utc)
    ]
    counts = Counter(instant.steps for instant in apart)
    usual, number = next(iter(counts.most_common(1)), (0, 0))
    steps = {usual, _daylight_partner(usual, counts)}
    elsewhere = [instant for instant in apart if instant.steps in steps]
    if number < _ELSEWHERE_MIN and in_utc:
        elsewhere = []
    witnesses = elsewhere or in_utc
    is_agreed = len(in_utc) + len(elsewhere) >= _AGREEING * len(possible)
    if not is_agreed or not _is_evidence(witnesses):
        return KnownZone(UTC_ZONE, ZoneBasis.UNSURE)
    basis = ZoneBasis.NOT_UTC if elsewhere else ZoneBasis.SEEN
    return KnownZone(UTC_ZONE, basis, witnesses[-1])


def _daylight_partner(usual: int, counts: Counter[int]) -> int:
    """The distance an hour from the usual one that is seen more often, if any is."""
    either = (usual - _STEPS_PER_HOUR, usual + _STEPS_PER_HOUR)
    partner = max(either, key=lambda step: counts[step])
    return partner if counts[partner] else usual


def _is_evidence(witnesses: Sequence[StartedInstant]) -> bool:
    """Whether agreeing instants prove something: they are to the minute, or lie apart.

    Then their objects lie apart as well, unless they are copies of instants an hour apart.
    """
    if not witnesses:
        return False
    digits = [witness.time.epoch_ms() for witness in witnesses]
    made = [witness.made_ms for witness in witnesses]
    span_ms = max(digits) - min(digits)
    lie_apart = span_ms >= _STEP_MS and max(made) - min(made) >= span_ms / 2
    return lie_apart or all(witness.is_tight for witness in witnesses)


def _utc_text(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"


def _digits_ms(time: InstantTime) -> int:
    """The digits read as UTC; 0 for those of a bootstrap and for what is no date."""
    try:
        return time.epoch_ms()
    except CorruptTableError:
        return 0
