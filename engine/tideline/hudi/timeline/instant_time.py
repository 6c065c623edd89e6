"""Instant times: the names by which a Hudi table orders everything that happens to it.

An instant time is `yyyyMMddHHmmssSSS` (17 digits). Other shapes occur in real tables:
`yyyyMMddHHmmss` (14 digits, Hudi before 0.10), an instant time with a suffix of three digits (20,
table services of a metadata table) or with two (23, a compaction after a partition was built
there), and times of almost only zeros (bootstraps: `00000000000000010`, 13 zeros in old tables).
The digits are those of the table's time zone: which
moment they stand for only `tideline.hudi.timeline.zone` knows; `TableInstants.next_time` makes new
ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from tideline.errors import ConfigError, CorruptTableError

SECONDS_DIGITS = 14
MILLIS_DIGITS = 17

_SHAPE = re.compile(r"[0-9]{14}(?:[0-9]{3}){0,3}|0{13}", re.ASCII)
# A time of whole seconds means the last millisecond of its second
# (Hudi: HoodieInstantTimeGenerator.fixInstantTimeCompatibility).
_MISSING_MILLIS = "999"
_BOOTSTRAP_PREFIX = "0000"


@dataclass(frozen=True, slots=True, order=True)
class InstantTime:
    """One point of a table's timeline.

    Ordered by the text of its digits, as in Hudi's InstantComparison: a time of whole seconds comes
    before all others of its second, a time with a suffix after the one without.
    """

    value: str

    def __hash__(self) -> int:
        return hash(self.value)

    @classmethod
    def parse(cls, text: str) -> InstantTime:
        """Read 14, 17 or 20 digits. Raises ConfigError for anything else, naming the text."""
        if not is_instant_time(text):
            raise ConfigError("not an instant time: expected 14, 17 or 20 digits", value=text)
        return cls(text)

    @classmethod
    def from_epoch_ms(cls, epoch_ms: int) -> InstantTime:
        """The instant time of a moment in UTC. Raises ConfigError outside the years 1 to 9999."""
        seconds, millis = divmod(epoch_ms, 1000)
        try:
            moment = datetime.fromtimestamp(seconds, tz=UTC)
        except (OverflowError, ValueError, OSError) as error:
            raise ConfigError("no instant time for this moment", value=epoch_ms) from error
        date = f"{moment.year:04d}{moment.month:02d}{moment.day:02d}"
        return cls(f"{date}{moment.hour:02d}{moment.minute:02d}{moment.second:02d}{millis:03d}")

    def epoch_ms(self) -> int:
        """Milliseconds since the Unix epoch if the digits were UTC; 0 for a bootstrap time.

        A time of whole seconds counts as the last millisecond of its second; a suffix is ignored.
        Raises CorruptTableError when the digits are no date.
        """
        if self.value.startswith(_BOOTSTRAP_PREFIX):
            return 0
        seconds_only = len(self.value) == SECONDS_DIGITS
        digits = self.value + _MISSING_MILLIS if seconds_only else self.value
        try:
            moment = datetime(
                int(digits[0:4]),
                int(digits[4:6]),
                int(digits[6:8]),
                int(digits[8:10]),
                int(digits[10:12]),
                int(digits[12:14]),
                tzinfo=UTC,
            )
        except ValueError as error:
            raise CorruptTableError("instant time is not a date", instant=self.value) from error
        return int(moment.timestamp()) * 1000 + int(digits[14:17])

    def __str__(self) -> str:
        return self.value


def is_instant_time(text: str) -> bool:
    """Whether `text` has the shape of an instant time."""
    return _SHAPE.fullmatch(text) is not None


def next_instant_time(now_ms: int, newest: InstantTime | None) -> InstantTime:
    """An instant time strictly greater than `now_ms` read as UTC and the timeline's `newest`.

    A clock that stands still or goes backwards is fine: the result is then `newest` plus 1 ms.
    """
    latest_ms = now_ms if newest is None else max(now_ms, newest.epoch_ms())
    return InstantTime.from_epoch_ms(latest_ms + 1)
