"""Which engine does small work, for both table formats."""

from __future__ import annotations

from enum import Enum


class SmallEngine(Enum):
    """Which engine does work whose rows one process can hold. Source: `tideline.engine.small`."""

    IN_PROCESS = "in_process"
    SPARK = "spark"
