"""How a table is, in a word."""

from __future__ import annotations

from enum import Enum


class Level(Enum):
    """From the best to the worst."""

    HEALTHY = "healthy"
    DUE = "work is due"
    BROKEN = "needs attention"
