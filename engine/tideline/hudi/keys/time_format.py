"""Local times as text by a pattern, in Arrow: as Java's DateTimeFormatter and Joda print them.

Names of months and days are English. A fraction of a second has three digits; what a pattern asks
for beyond is zeros, as Joda has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.keys.time_pattern import Field, PatternPart, pattern_parts

Millis = npt.NDArray[np.int64]
"""Since the epoch; of a local time as if it were UTC."""
DAY = 86_400_000
_HOUR, _MINUTE, _SECOND = 3_600_000, 60_000, 1_000
_FRACTION_DIGITS = 3
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT = 3
_STEPS = {"a": DAY // 2, "m": _MINUTE, "s": _SECOND, **dict.fromkeys("HhKk", _HOUR)}


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """How local times are printed.

    `step_millis`: all times between two multiples of it are printed alike.
    """

    parts: tuple[PatternPart, ...]
    step_millis: int

    @classmethod
    def of(cls, joda: str, *, offset: str | None = None) -> TimeFormat | None:
        """The format of a pattern, None for one that is not printed here.

        `offset` is what stands for the zone's offset, which a local time does not have.
        """
        parts = pattern_parts(joda)
        if parts is None:
            return None
        fields = [part for part in parts if isinstance(part, Field)]
        if offset is None and any(part.letter == "Z" for part in fields):
            return None
        return cls(parts, min((_step(part) for part in fields), default=DAY))

    def texts(self, local: Millis, *, offset: str = "") -> pa.Array:
        """The text of every time, of the years 1 to 9999."""
        texts = []
        for part in self.parts:
            if isinstance(part, Field) and part.letter != "Z":
                texts.append(_field_texts(part, local))
            else:
                text = offset if isinstance(part, Field) else part.text
                texts.append(pa.repeat(pa.scalar(text), len(local)))
        return pc.binary_join_element_wise(*texts, "")


def _step(part: Field) -> int:
    if part.letter == "S":
        return int(10 ** max(_FRACTION_DIGITS - part.width, 0))
    return _STEPS.get(part.letter, DAY)


def _field_texts(part: Field, local: Millis) -> pa.Array:
    letter, width = part.letter, part.width
    if letter == "y":
        year = _years(local)
        return _padded(year % 100 if width == 2 else year, width)
    if letter == "M":
        month = _months(local) % 12
        return _padded(month + 1, width) if width < _SHORT else _named(_MONTHS, month, width)
    if letter == "E":
        return _named(_WEEKDAYS, (local // DAY + 3) % 7, width)
    if letter == "a":
        return pa.array(["AM", "PM"]).take(pa.array(local % DAY // (DAY // 2)))
    if letter == "S":
        digits = min(width, _FRACTION_DIGITS)
        shown = _padded(local % _SECOND // 10 ** (_FRACTION_DIGITS - digits), digits)
        return pc.binary_join_element_wise(shown, "0" * (width - digits), "")
    return _padded(_NUMBERS[letter](local), width)


def _years(local: Millis) -> Millis:
    return _months(local) // 12 + 1970


def _months(local: Millis) -> Millis:
    """Since January 1970."""
    months: Millis = _days(local).astype("M8[M]").astype(np.int64)
    return months


def _days(local: Millis) -> npt.NDArray[np.datetime64]:
    return (local // DAY).astype("M8[D]")


def _day_in(unit: str) -> Callable[[Millis], Millis]:
    def number(local: Millis) -> Millis:
        days = _days(local)
        passed: Millis = (days - days.astype(unit).astype("M8[D]")).astype(np.int64)
        return passed + 1

    return number


def _hour(local: Millis) -> Millis:
    return local % DAY // _HOUR


_NUMBERS: Mapping[str, Callable[[Millis], Millis]] = {
    "d": _day_in("M8[M]"),
    "D": _day_in("M8[Y]"),
    "H": _hour,
    "K": lambda local: _hour(local) % 12,
    "h": lambda local: (_hour(local) + 11) % 12 + 1,
    "k": lambda local: (_hour(local) + 23) % 24 + 1,
    "m": lambda local: local % _HOUR // _MINUTE,
    "s": lambda local: local % _MINUTE // _SECOND,
}


def _padded(numbers: Millis, width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")


def _named(names: tuple[str, ...], numbers: Millis, width: int) -> pa.Array:
    shown = [name if width > _SHORT else name[:_SHORT] for name in names]
    return pa.array(shown).take(pa.array(numbers))
