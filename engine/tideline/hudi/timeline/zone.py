"""Time zones of instant times: from moments to digits and back.

The digits of an instant time are those of a clock on the wall of its table: UTC, or where
`hoodie.table.timeline.timezone` is LOCAL, Hudi's default, the zone that its writer's Java runs in.
When clocks are set back an hour of digits comes twice; such digits count as the later of the two
moments, so that nothing is taken to be older than it is. Digits of the hour that is left out in
spring, which only a successor of others can have, count as the later moment as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from tideline.errors import ConfigError, CorruptTableError
from tideline.hudi.timeline.instant_time import InstantTime, next_instant_time

_FIXED = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2}):?([0-9]{2})", re.ASCII)
_OFFSET_MINUTES_MAX = 18 * 60
_UTC_NAMES = frozenset({"UTC", "Z", "ETC/UTC", "GMT", "ETC/GMT", "+00:00"})


@dataclass(frozen=True, slots=True)
class TimelineZone:
    """The zone of a table's digits: `UTC`, an IANA name or a fixed offset such as `+05:30`."""

    name: str = "UTC"

    @classmethod
    def parse(cls, text: str) -> TimelineZone:
        """A zone by its name. Raises ConfigError for an unknown one."""
        name = text.strip()
        if name.upper() in _UTC_NAMES:
            return UTC_ZONE
        _time_zone(name)
        return cls(name)

    @classmethod
    def of_offset(cls, minutes: int) -> TimelineZone:
        """The zone that is always this far ahead of UTC."""
        return cls(offset_text(minutes)) if minutes else UTC_ZONE

    @property
    def is_utc(self) -> bool:
        return self.name == "UTC"

    def instant_at(self, epoch_ms: int) -> InstantTime:
        """The digits of a moment. Raises ConfigError outside the years 1 to 9999."""
        return InstantTime.from_epoch_ms(epoch_ms + self._ahead_ms(epoch_ms))

    def epoch_ms(self, time: InstantTime) -> int:
        """The moment of an instant, the later one where its digits come twice.

        0 for a bootstrap time. Raises CorruptTableError when the digits are no date.
        """
        return self._moments_ms(time)[-1]

    def earliest_ms(self, time: InstantTime) -> int:
        """The same, but the earlier moment."""
        return self._moments_ms(time)[0]

    def next_time(self, now_ms: int, newest: InstantTime | None) -> InstantTime:
        """An instant time strictly greater than the moment `now_ms` and the timeline's `newest`.

        While digits come for the second time that is the newest plus 1 ms, as for a clock that
        goes backwards.
        """
        return next_instant_time(now_ms + self._ahead_ms(now_ms), newest)

    def _ahead_ms(self, epoch_ms: int) -> int:
        if self.is_utc:
            return 0
        try:
            moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
            return _milliseconds(moment.astimezone(_time_zone(self.name)).utcoffset())
        except (OverflowError, ValueError, OSError) as error:
            raise ConfigError(
                "there is no instant time for this moment: set the clock of this machine",
                value=epoch_ms,
            ) from error

    def _moments_ms(self, time: InstantTime) -> list[int]:
        """The moments that the digits stand for, in order."""
        digits_ms = time.epoch_ms()
        if self.is_utc or digits_ms == 0:
            return [digits_ms]
        local = datetime.fromtimestamp(digits_ms // 1000, UTC)
        zone = _time_zone(self.name)
        try:
            return sorted(
                digits_ms - _milliseconds(local.replace(tzinfo=zone, fold=fold).utcoffset())
                for fold in (0, 1)
            )
        except OverflowError as error:
            raise CorruptTableError("instant time is not a date", instant=time) from error

    def __str__(self) -> str:
        return self.name


UTC_ZONE = TimelineZone()


def offset_text(minutes: int) -> str:
    """An offset from UTC as people write it: `+05:30`."""
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


@cache
def _time_zone(name: str) -> tzinfo:
    fixed = _FIXED.fullmatch(name.upper())
    if fixed is not None:
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        if minutes <= _OFFSET_MINUTES_MAX and int(fixed[3]) < 60:
            return timezone(timedelta(minutes=-minutes if fixed[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as error:
        raise ConfigError(
            "no time zone of this name: write one like America/Los_Angeles, UTC or +05:30",
            value=name,
        ) from error


def _milliseconds(offset: timedelta | None) -> int:
    return 0 if offset is None else offset // timedelta(milliseconds=1)
