"""Positions in a write-ahead log: numbers, written `16/B374D848`."""

from __future__ import annotations


def parse_lsn(text: str) -> int:
    """Raises ValueError where it is none."""
    high, _, low = text.partition("/")
    halves = int(high, 16), int(low, 16)
    if not all(0 <= half < 1 << 32 for half in halves):
        raise ValueError(f"a position has eight bytes, not {text[:40]}")
    return (halves[0] << 32) + halves[1]


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
