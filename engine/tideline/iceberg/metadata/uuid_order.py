"""The order that Iceberg's Java has of UUIDs: by its two halves, as signed numbers.

Its readers find rows only where bounds are of that order; the bytes of a UUID have another one, in
which Parquet keeps its statistics, for Java's writers as well.
"""

from __future__ import annotations

from uuid import UUID

_HALF = 1 << 63


def java_order(value: UUID) -> tuple[int, int]:
    """What Java compares."""
    return _signed(value.int >> 64), _signed(value.int & (2 * _HALF - 1))


def _signed(half: int) -> int:
    return half - 2 * _HALF if half >= _HALF else half
