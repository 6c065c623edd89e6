"""What reads the records of topics."""

from __future__ import annotations

from enum import Enum

LARGE_BYTES = 512 * 1024 * 1024
"""More than a process shall take in at once."""
SPARK_BYTES_MAX = 10_000_000_000
"""In one commit that is read on Spark, unless declared."""


class ReadEngine(Enum):
    """What reads ranges; AUTO is Spark for those that are too large for a process."""

    IN_PROCESS = "InProcess"
    SPARK = "Spark"
    AUTO = "Auto"
