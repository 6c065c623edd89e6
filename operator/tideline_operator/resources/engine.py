"""Which engine moves the rows of a table."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline_operator.resources.field import described


class SmallWork(Enum):
    """What does work whose rows one process can hold."""

    IN_PROCESS = "InProcess"
    SPARK = "Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The engines that move rows: the driver's own process, and Spark with executors."""

    small: SmallWork | None = described(
        "What does small work, by the bytes it moves: InProcess, the driver alone without Spark, "
        "or Spark. Left out, the table's own tideline.engine.small decides, or InProcess.",
        default=None,
    )
