"""How rows are ordered by several columns (`hoodie.layout.optimize.strategy`)."""

from __future__ import annotations

from enum import Enum


class RowLayout(Enum):
    """Linear order has the first column decide; curves keep rows close that agree in any column."""

    LINEAR = "LINEAR"
    ZORDER = "ZORDER"
    HILBERT = "HILBERT"
