"""Positions in a write-ahead log: numbers, written `16/B374D848`."""

from __future__ import annotations


def parse_lsn(text: str) -> int:
    """Raises ValueError where it is none."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
