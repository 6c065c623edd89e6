"""Whether record keys are unique in the whole table or in their partition, as the spec declares it.

It chooses among indexes, so the spec's index and properties must not contradict it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from tideline_operator.resources.field import CelRule


class Uniqueness(Enum):
    """Within what a record key is stored once."""

    PARTITION = "Partition"
    TABLE = "Table"


_NOT_BY_BUCKET = (
    "Table does not work with a BUCKET index, which looks for a key in its partition only"
)
_GLOBAL_IS_TABLE = "Partition contradicts a global index, which keeps keys unique in the table"
_ONE_WORD = "give the index as spec.index: a property would override uniqueness"
INDEX_PROPERTIES = ("hoodie.index.type", "tideline.index.type")

_HAS_INDEX = "has(self.uniqueness) && has(self.index)"
_NAMES_INDEX = " || ".join(f"'{name}' in self.properties" for name in INDEX_PROPERTIES)

UNIQUENESS_RULES = (
    CelRule(
        f"!({_HAS_INDEX}) || self.uniqueness != 'Table' || self.index.type != 'BUCKET'",
        _NOT_BY_BUCKET,
        field="uniqueness",
    ),
    CelRule(
        f"!({_HAS_INDEX}) || self.uniqueness != 'Partition' || "
        "!self.index.type.startsWith('GLOBAL_')",
        _GLOBAL_IS_TABLE,
        field="uniqueness",
    ),
    CelRule(
        f"!has(self.uniqueness) || !has(self.properties) || !({_NAMES_INDEX})",
        _ONE_WORD,
        field="properties",
    ),
)


def uniqueness_faults(
    uniqueness: Uniqueness | None, index: str | None, properties: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The same for a parsed spec; `index` is its type."""
    if uniqueness is Uniqueness.TABLE and index == "BUCKET":
        yield "uniqueness", _NOT_BY_BUCKET
    if uniqueness is Uniqueness.PARTITION and (index or "").startswith("GLOBAL_"):
        yield "uniqueness", _GLOBAL_IS_TABLE
    if uniqueness is not None and any(name in properties for name in INDEX_PROPERTIES):
        yield "properties", _ONE_WORD
