"""What an update of a table in Glue says: all of it, since Glue replaces the whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXTERNAL_TABLE = "EXTERNAL_TABLE"
COMMENT_LENGTH_MAX = 255
"""Of a column."""
_KEPT = (
    "Name", "Description", "Owner", "Retention", "StorageDescriptor", "PartitionKeys",
    "TableType", "Parameters", "TargetTable",
)  # fmt: skip
"""Members of an answer that an update may have. The others are Glue's own."""


def as_input(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table as Glue answered it, as the input of an update that changes nothing."""
    return {member: table[member] for member in _KEPT if member in table}
