"""Which engine does small work, for both table formats."""

from __future__ import annotations

from enum import Enum

SMALL_ENGINE = "tideline.engine.small"
"""The setting that says which."""


class SmallEngine(Enum):
    """Which engine does work whose rows one process can hold."""

    IN_PROCESS = "in_process"
    SPARK = "spark"
