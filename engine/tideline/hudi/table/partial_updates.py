"""Partial updates of version 9: a row is filled up from the row of its key that it wins against.

Source: Hudi's PartialUpdateMode, PartialUpdateHandler.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's marker, in a change event in place of a large value that an update left as it was."""


class PartialUpdateMode(Enum):
    """Which values are taken from the other row.

    IGNORE_DEFAULTS: nulls. FILL_UNAVAILABLE: texts and bytes that are the marker of a value that
    was not available.
    """

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PartialUpdates:
    """How rows of a table are filled up; `unavailable` is the marker, None where there is none."""

    mode: PartialUpdateMode
    unavailable: str | None = None
