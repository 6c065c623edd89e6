"""Numbers in words, as in messages, reports and events, and names that may be meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_UNITS = ("B", "kB", "MB", "GB")


def counted(number: int, noun: str) -> str:
    """How many there are of something: `1 file`, `2,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def counted_of(some: int, total: int, noun: str) -> str:
    """How many of them: `2 of 3 files`; `3 files` where it is all."""
    return counted(some, noun) if some >= total else f"{some:,} of {counted(total, noun)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that an unknown one is most like, whatever their case; None without one."""
    folded = {other.casefold(): other for other in known}
    found = get_close_matches(name.casefold(), list(folded), n=1)
    return folded[found[0]] if found else None


def spending_text(core_seconds: float, requests: int) -> str:
    """What was spent: `1.5 core-seconds, 31 requests`."""
    cores = f"{core_seconds:.1f} core-seconds"
    return f"{cores}, {counted(requests, 'request')}" if requests else cores


def size_text(size_bytes: int) -> str:
    """Bytes in the unit that fits: `1.4 MB`."""
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
