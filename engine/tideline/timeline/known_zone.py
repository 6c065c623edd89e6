"""How well the zone of a table's instants is known, and what follows from it. Pure.

`hoodie.table.timeline.timezone` is UTC, or LOCAL without a word on whose clock that is. Then the
zone is declared (`tideline.timezone`), or told from when the objects of the timeline were made: the
`.requested` object of a write is made within moments of its instant, so that its time by the store
less its digits read as UTC is how far UTC is ahead of the writers, in multiples of 15 minutes.

1. All of them agree on none: UTC. They agree on another distance, or on two an hour apart (daylight
   saving), also where others are UTC (an engine of another zone wrote, too): visibly not UTC.
2. They do not agree, or all objects are of nearly one time (a copy): not known.
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

from tideline.errors import CorruptTable
from tideline.timeline.instant import Action, Instant, State
from tideline.timeline.instant_time import InstantTime
from tideline.timeline.zone import UTC_ZONE, TimelineZone, offset_text

SAMPLES_MAX = 30
_STEP_MS = 15 * 60_000
_STEPS_PER_HOUR = 4
_AHEAD_STEPS_MAX = 14 * _STEPS_PER_HOUR
_BEHIND_STEPS_MAX = 12 * _STEPS_PER_HOUR
_TIGHT_MS = 60_000
_NEXT_FREE_MS = 10
_AGREEING = 0.8
_LIKELY_AT_ONCE = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})


@dataclass(frozen=True, slots=True)
class BegunInstant:
    """When a write was begun: by its digits, and by the store's clock."""

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
    UNSURE = "nothing says whose clock its instants are"


@dataclass(frozen=True, slots=True)
class SeenZone:
    """What the objects of a timeline say: UTC, visibly not UTC (with an example), or nothing."""

    basis: ZoneBasis
    example: BegunInstant | None = None

    @property
    def ahead_minutes(self) -> int:
        """How far the example's digits are ahead of UTC."""
        return -self.example.steps * 15 if self.example else 0


@dataclass(frozen=True, slots=True)
class KnownZone:
    """The zone in which instants are made and aged, and how it is known.

    What is not declared is taken for UTC.
    """

    zone: TimelineZone = UTC_ZONE
    basis: ZoneBasis = ZoneBasis.STATED
    example: BegunInstant | None = None
    ahead_minutes: int = 0

    @property
    def tells_age(self) -> bool:
        """Whether the age of an instant can be told."""
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
        """What a person should know although work goes on."""
        if self.basis is not ZoneBasis.UNSURE:
            return None
        return (
            "nothing says whose clock the table's instants are (hoodie.table.timeline.timezone is "
            "LOCAL, and the times of its objects do not show it), so they are taken for UTC; "
            "declare it as tideline.timezone"
        )


KNOWN_UTC = KnownZone()
AGE_UNKNOWN = (
    "how old an instant is cannot be told before the table's time zone is declared "
    "(tideline.timezone)"
)
"""Why what goes by age waits."""


def zone_of_objects(made_ms: Mapping[Instant, int]) -> KnownZone:
    """What is known of an undeclared zone from when each state's object was made."""
    seen = infer_zone(begun_instants(made_ms))
    return KnownZone(UTC_ZONE, seen.basis, seen.example, seen.ahead_minutes)


def doubt_of(zone: TimelineZone, made_ms: Mapping[Instant, int]) -> str | None:
    """Why a declared zone may be a mistake; None when the newest objects fit or say nothing.

    A doubt is no refusal: the writers may just have moved to that zone.
    """
    seen = infer_zone(begun_instants(made_ms))
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


def begun_instants(made_ms: Mapping[Instant, int]) -> tuple[BegunInstant, ...]:
    """The newest instants that say something, of all states with the times of their objects."""
    digits = {time: ms for time in {one.time for one in made_ms} if (ms := _digits_ms(time))}
    times = sorted(digits)
    follows = {
        later
        for earlier, later in pairwise(times)
        if digits[later] - digits[earlier] <= _NEXT_FREE_MS
    }
    found = [
        BegunInstant(instant.time, made)
        for instant, made in made_ms.items()
        if instant.state is State.REQUESTED
        and instant.action in _LIKELY_AT_ONCE
        and instant.time in digits
        and instant.time not in follows
    ]
    return tuple(sorted(found, key=lambda one: one.time)[-SAMPLES_MAX:])


def infer_zone(begun: Sequence[BegunInstant]) -> SeenZone:
    """What the objects of the newest writes say about the zone of their digits."""
    unsure = SeenZone(ZoneBasis.UNSURE)
    possible = [one for one in begun if -_AHEAD_STEPS_MAX <= one.steps <= _BEHIND_STEPS_MAX]
    if not possible or _are_copies(begun):
        return unsure
    counts = Counter(one.steps for one in possible)
    elsewhere = Counter({step: count for step, count in counts.items() if step != 0})
    usual, number = next(iter(elsewhere.most_common(1)), (0, 0))
    is_elsewhere = number > 1 or number == len(possible)
    steps = {usual, _daylight_partner(usual, elsewhere)} if is_elsewhere else {0}
    if sum(counts[step] for step in steps | {0}) < _AGREEING * len(possible):
        return unsure
    witnesses = [one for one in possible if one.steps in steps]
    if not _is_evidence(witnesses):
        return unsure
    if is_elsewhere:
        return SeenZone(ZoneBasis.NOT_UTC, witnesses[-1])
    return SeenZone(ZoneBasis.SEEN, witnesses[-1])


def _daylight_partner(usual: int, counts: Counter[int]) -> int:
    """The distance an hour from the usual one that is seen more often, if any is."""
    either = (usual - _STEPS_PER_HOUR, usual + _STEPS_PER_HOUR)
    partner = max(either, key=lambda step: counts[step])
    return partner if counts[partner] else usual


def _is_evidence(witnesses: Sequence[BegunInstant]) -> bool:
    """Whether agreeing instants prove something: they lie apart, or are to the minute."""
    if not witnesses:
        return False
    return _digits_span_ms(witnesses) >= _STEP_MS or all(one.is_tight for one in witnesses)


def _are_copies(begun: Sequence[BegunInstant]) -> bool:
    """Whether the objects were made together, though their instants lie apart."""
    span_ms = _digits_span_ms(begun)
    made = [one.made_ms for one in begun]
    return span_ms >= _STEP_MS and max(made) - min(made) < span_ms / 2


def _utc_text(epoch_ms: int) -> str:
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"


def _digits_ms(time: InstantTime) -> int:
    """The digits read as UTC; 0 for those of a bootstrap and for what is no date."""
    try:
        return time.epoch_ms()
    except CorruptTable:
        return 0


def _digits_span_ms(begun: Sequence[BegunInstant]) -> int:
    digits = [one.time.epoch_ms() for one in begun]
    return max(digits) - min(digits)
