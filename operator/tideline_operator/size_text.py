"""Sizes as people read them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB")


def size_text(size_bytes: int) -> str:
    """Bytes in the unit that fits: `1.4 MB`."""
    size = float(size_bytes)
    for unit in _UNITS:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
