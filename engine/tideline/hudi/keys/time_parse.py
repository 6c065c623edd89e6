"""Text as local times by a pattern, in Arrow: as Spark's formatter reads it, which is strict.

Two letters are two digits, one is as many as there are, four are a year from 0001 to 9999. An
offset is `Z`, +01:00 or +0100. A fraction may have fewer digits than letters, and is cut to
milliseconds. Source: Spark's DateTimeFormatterHelper, Java's NumberPrinterParser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.hudi.keys.time_format import DAY, Millis
from tideline.hudi.keys.time_pattern import Field, PatternPart, Text, pattern_parts

Flags = npt.NDArray[np.bool_]
_CLOCK = "HmsS"
"""None may be there without the ones before it."""
_WIDTHS = {"y": (4,), "Z": (1, 2), "S": tuple(range(1, 10)), **dict.fromkeys("MdHms", (1, 2))}
_OFFSET = r"(?:Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))"
_OFFSET_MINUTES_MAX = 18 * 60
_MINUTE = 60_000
_SCALE = {"H": 3_600_000, "m": _MINUTE, "s": 1_000}


@dataclass(frozen=True, slots=True)
class TimeParse:
    """How text is read. `letters` are the fields that it has."""

    expression: str
    letters: frozenset[str]

    @classmethod
    def of(cls, joda: str) -> TimeParse | None:
        """The reader of a pattern, None for one that is not read here."""
        parts = pattern_parts(joda)
        if parts is None or not _is_read(parts):
            return None
        letters = frozenset(part.letter for part in parts if isinstance(part, Field))
        return cls(rf"(?i)\A{''.join(map(_expression, parts))}\z", letters)

    @property
    def has_offset(self) -> bool:
        return "Z" in self.letters

    def times(self, texts: pa.Array) -> tuple[Millis, Millis, Flags]:
        """Of every text the local time as it is written, its offset in milliseconds, and whether
        it was read at all."""
        found = pc.extract_regex(texts, self.expression)
        fits = found.is_valid().to_numpy(zero_copy_only=False)
        parts = found.filter(pa.array(fits))
        local, is_time = self._local(parts)
        offset, is_offset = self._offset(parts)
        where = np.flatnonzero(fits)
        times, offsets = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
        times[where], offsets[where] = local, offset
        fits[where] = is_time & is_offset
        return times, offsets, fits

    def _local(self, parts: pa.Array) -> tuple[Millis, Flags]:
        values = {letter: _numbers(parts, letter) for letter in self.letters & set("yMdHms")}
        array = np.ones(len(parts), np.int64)
        year, month, day = values["y"], values.get("M", array), values.get("d", array)
        ordinal = ((year - 1970) * 12 + month - 1).astype("M8[M]")
        first, following = (
            item.astype("M8[D]").astype(np.int64) for item in (ordinal, ordinal + 1)
        )
        is_time = (year >= 1) & (month >= 1) & (month <= 12)
        is_time &= (day >= 1) & (day <= following - first)
        millis = (first + day - 1) * DAY
        for letter, scale in _SCALE.items():
            if letter in values:
                is_time &= values[letter] <= (23 if letter == "H" else 59)
                millis += values[letter] * scale
        if "S" in self.letters:
            digits = pc.utf8_slice_codeunits(pc.struct_field(parts, "S"), 0, 3)
            millis += pc.utf8_rpad(digits, 3, "0").cast(pa.int64()).to_numpy()
        return millis, is_time

    def _offset(self, parts: pa.Array) -> tuple[Millis, Flags]:
        if not self.has_offset:
            return np.zeros(len(parts), np.int64), np.ones(len(parts), np.bool_)
        hours, minutes = _numbers(parts, "hours"), _numbers(parts, "minutes")
        total = hours * 60 + minutes
        is_west = pc.equal(pc.struct_field(parts, "sign"), "-").to_numpy(zero_copy_only=False)
        is_offset = (minutes <= 59) & (total <= _OFFSET_MINUTES_MAX)
        return np.where(is_west, -total, total) * _MINUTE, is_offset


def _numbers(parts: pa.Array, name: str) -> Millis:
    """Digits as numbers; of a group that is not in the text, 0."""
    digits = pc.struct_field(parts, name)
    numbers: Millis = pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).to_numpy()
    return numbers


def _is_read(parts: Sequence[PatternPart]) -> bool:
    """Whether Spark reads the pattern as the expression does."""
    fields = [part for part in parts if isinstance(part, Field)]
    letters = [part.letter for part in fields]
    if "y" not in letters or len(set(letters)) < len(letters):
        return False
    if any(part.width not in _WIDTHS.get(part.letter, ()) for part in fields):
        return False
    clock = [letter for letter in _CLOCK if letter in letters]
    if "".join(clock) != _CLOCK[: len(clock)]:
        return False
    if "Z" in letters[:-1] or ("Z" in letters and parts[-1] != fields[-1]):
        return False
    texts = [part.text for part in parts if isinstance(part, Text)]
    if not all(text.isascii() and text.isprintable() and "'" not in text for text in texts):
        return False
    return not _runs_on(parts)


def _runs_on(parts: Sequence[PatternPart]) -> bool:
    """Whether digits follow a number that takes all there are: a field of one letter, a fraction,
    or a year, which leaves only what fields of two letters right behind it need."""
    is_open = is_year = False
    for part in parts:
        if isinstance(part, Text):
            if is_open and part.text[:1].isdigit():
                return True
            is_open = False
        elif part.letter == "Z":
            is_open = False
        elif part.letter in "yS" or part.width == 1:
            if is_open:
                return True
            is_open, is_year = True, part.letter == "y"
        elif is_open and not is_year:
            return True
    return False


def _expression(part: PatternPart) -> str:
    if isinstance(part, Text):
        return "".join(f"\\x{ord(character):02x}" for character in part.text)
    if part.letter == "Z":
        return _OFFSET
    return rf"(?P<{part.letter}>{_digits(part)})"


def _digits(part: Field) -> str:
    if part.letter == "S":
        return rf"\d{{1,{part.width}}}"
    return rf"\d{{{part.width}}}" if part.width > 1 else r"0{0,17}\d{1,2}"
