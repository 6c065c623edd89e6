"""How much of one metadata object is read: values that all layers know.

What a table's folder holds was written by others. A few bytes of it can ask for any amount of
memory: gzip and deflate shrink a thousandfold, and a two-byte JSON value is an object of two
hundred bytes. Therefore nothing is read whole, decompressed or parsed beyond these limits; what
exceeds one raises UnsupportedTableError naming path, sizes and the setting.

`TIDELINE_METADATA_BYTES_MAX` is a number of bytes or such as `512Mi`; other limits follow from it.
`TIDELINE_COLUMNS_MAX` is about the columns of files. A process that looks at many tables at the
same time, as the operator does, sets the first low and takes turns: within `reading_in_turn` one
table's large objects are in memory at a time.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.wording import size_text

SETTING: Final = "TIDELINE_METADATA_BYTES_MAX"
OBJECT_BYTES_DEFAULT: Final = 256 * 1024 * 1024
"""A metadata.json of 10,000 snapshots and a commit of 300,000 files are smaller."""
_OBJECT_BYTES_LEAST: Final = 64 * 1024
_BYTES_PER_VALUE: Final = 16
"""A value in JSON or Avro takes 25 to 80 bytes there, and about 100 in memory, an object twice as
much: at most one value for so many bytes of the limit keeps what is made of them below ten times
the limit."""
_BYTES_PER_FILE: Final = 64
"""An entry of a manifest is about a kilobyte in memory: sixteen times the limit altogether."""
_LARGE_BYTES: Final = 1024 * 1024
"""Above it an object waits for its turn. Smaller ones are read side by side."""
JSON_DEPTH_MAX: Final = 256
"""A level of a nested type is three levels of JSON. Python gives up at a thousand calls."""
COLUMNS_SETTING: Final = "TIDELINE_COLUMNS_MAX"
_COLUMNS_DEFAULT: Final = 10_000
"""Leaf columns of a source file or a base file. Spark's planning grows much faster than they do: it
does not get through a hundred thousand in an hour."""
_DIGITS_MAX: Final = 10
INTEGER_BITS_MAX: Final = 64
"""Of a whole number in JSON: no field of Hudi or Iceberg holds more."""

_FACTORS: Final = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3}
_BINARY_FACTORS: Final = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of this process."""

    object_bytes_max: int = OBJECT_BYTES_DEFAULT

    @property
    def values_max(self) -> int:
        """Values in one JSON document or Avro block."""
        return self.object_bytes_max // _BYTES_PER_VALUE

    @property
    def listed_files_max(self) -> int:
        """Entries of manifests that one look of the operator at a table reads."""
        return self.object_bytes_max // _BYTES_PER_FILE

    @classmethod
    def parse(cls, text: str) -> ReadLimits:
        """The limits for a value of the setting, empty for the default. Raises ConfigError."""
        if not text.strip():
            return cls()
        found = re.fullmatch(r"([0-9]{1,15})(K|M|G|Ki|Mi|Gi)?", text.strip(), re.ASCII)
        if found is None:
            raise ConfigError(
                f"{SETTING}: allowed: a number of bytes, or such as 512Mi", value=text
            )
        size_bytes = int(found[1]) * (_FACTORS | _BINARY_FACTORS)[found[2] or ""]
        if size_bytes < _OBJECT_BYTES_LEAST:
            raise ConfigError(f"{SETTING}: allowed: 64Ki and more", value=text)
        return cls(size_bytes)


def read_limits() -> ReadLimits:
    """The limits in force. Raises ConfigError for a setting that cannot be read."""
    return _parsed(os.environ.get(SETTING, ""))


def columns_max() -> int:
    """How many columns a file may have. Raises ConfigError for a setting that cannot be read."""
    text = os.environ.get(COLUMNS_SETTING, "").strip() or str(_COLUMNS_DEFAULT)
    if not (text.isascii() and text.isdecimal() and 0 < len(text) < _DIGITS_MAX and int(text)):
        raise ConfigError(f"{COLUMNS_SETTING}: allowed: a whole number above zero", value=text)
    return int(text)


def too_many_columns(found: int) -> str | None:
    """What is wrong with so many columns, None when nothing is."""
    limit = columns_max()
    if found <= limit:
        return None
    return (
        f"{found:,} columns are more than the {limit:,} that are read; set {COLUMNS_SETTING} "
        "higher where they are meant"
    )


def admit(size_bytes: int, *, path: object = None, what: str = "object") -> None:
    """Let an object of this size, as stored or decompressed, be read into memory.

    Waits for its turn where turns are taken. Raises UnsupportedTableError when it exceeds the
    limit.
    """
    limit_bytes = read_limits().object_bytes_max
    if size_bytes > limit_bytes:
        raise too_large(f"{what} of {size_text(size_bytes)}", limit_bytes, path=path)
    _take_turn(size_bytes)


def too_large(what: str, limit_bytes: int, *, path: object = None) -> UnsupportedTableError:
    """The error for what exceeds the limit on bytes."""
    return UnsupportedTableError(
        f"{what} is larger than the {size_text(limit_bytes)} of metadata that are read at once; "
        f"if it is sound, set {SETTING} higher, and give the process the memory for it",
        path=path,
    )


def too_many_values(found: int, limit: int, *, path: object = None) -> UnsupportedTableError:
    """The error for a document of too many values."""
    return UnsupportedTableError(
        f"{found:,} values are more than the {limit:,} that are read from one object; if it is "
        f"sound, set {SETTING} higher than {size_text(read_limits().object_bytes_max)}, and give "
        "the process the memory for it",
        path=path,
    )


@dataclass(slots=True)
class LargeReads:
    """One look at one table: whether it read large objects, and entries of manifests so far.

    For the threads of one look, each in a copy of its context.
    """

    entries_max: int
    is_large: bool = False
    entries: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def hold(self) -> None:
        """Wait until no other look has large objects in memory."""
        with self._lock:
            if not self.is_large:
                _one_at_a_time.acquire()
                self.is_large = True

    def release(self) -> None:
        with self._lock:
            if self.is_large:
                self.is_large = False
                _one_at_a_time.release()

    def count(self, entries: int) -> None:
        with self._lock:
            self.entries += entries


@contextmanager
def reading_in_turn() -> Iterator[LargeReads]:
    """Within, this thread's large objects are in memory while no other turn's are.

    What was parsed from them is to be dropped at the end.
    """
    outer = _turn.get()
    if outer is not None:
        yield outer
        return
    turn = LargeReads(read_limits().listed_files_max)
    token = _turn.set(turn)
    try:
        yield turn
    finally:
        _turn.reset(token)
        turn.release()


def reads_large_objects() -> bool:
    """Whether this thread's look has read a large object so far."""
    turn = _turn.get()
    return turn is not None and turn.is_large


def count_entries(count: int, *, path: object = None) -> None:
    """Note entries read from a manifest.

    Raises UnsupportedTableError in a look that reads too many.
    """
    turn = _turn.get()
    if turn is None:
        return
    turn.count(count)
    if turn.entries > _ENTRIES_SMALL:
        turn.hold()
    if turn.entries > turn.entries_max:
        raise UnsupportedTableError(
            f"the newest snapshot lists more than {turn.entries_max:,} files, too many for one "
            f"look; set {SETTING} higher, and give the process the memory for it",
            path=path,
        )


_ENTRIES_SMALL: Final = 10_000
"""Entries, some ten megabytes, that are read without waiting for a turn."""


def _take_turn(size_bytes: int) -> None:
    turn = _turn.get()
    if turn is not None and size_bytes > _LARGE_BYTES:
        turn.hold()


@lru_cache(maxsize=8)
def _parsed(text: str) -> ReadLimits:
    return ReadLimits.parse(text)


_turn: ContextVar[LargeReads | None] = ContextVar("tideline_read_turn", default=None)
_one_at_a_time = threading.Lock()
