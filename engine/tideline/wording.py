"""Numbers in words, as in messages, reports and events."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB")


def counted(number: int, noun: str) -> str:
    """How many there are of something: `1 file`, `2,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


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
