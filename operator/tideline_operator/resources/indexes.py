"""The indexes that a Hudi table is to have, as a spec lists them: what is refused.

In CEL for the API server, and the same for the parser, which also knows the types of a declared
schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tideline.hudi.index.index_type import IndexType
from tideline.hudi.metadata_table.index_names import FOLLOWED_TYPES, MADE_ON_DEMAND, needed_by
from tideline.hudi.table.layout.metadata_partitions import KEPT_IN_VERSION_6
from tideline.hudi.table.table_config import PARTITION_STATS, RECORD_INDEX, SECONDARY_INDEX
from tideline_operator.resources.field import CelRule
from tideline_operator.resources.ingest import ColumnSpec
from tideline_operator.resources.uniqueness import Uniqueness

INDEXES_MAX = 32
INDEX: Mapping[str, Any] = {
    "pattern": "|".join((*MADE_ON_DEMAND, f"{SECONDARY_INDEX}[A-Za-z_][A-Za-z0-9_]*")),
    "pattern_meaning": f"{', '.join(MADE_ON_DEMAND)}, or {SECONDARY_INDEX} and a column",
    "length_max": 255,
}
"""What resources take as an index: constraints for `described`."""

_WITH_FEWER = 6
"""The table version that has a few of the indexes."""
_OF_VERSION_6 = tuple(name for name in MADE_ON_DEMAND if name in KEPT_IN_VERSION_6)
_METADATA = "hoodie.metadata.enable"
_TWICE = "lists an index twice"
_NOT_IN_VERSION = (
    f"tables of version 6 have {', '.join(_OF_VERSION_6)} alone: create the table with "
    "tableVersion 8 or 9"
)
_NO_METADATA = f"are partitions of the metadata table, which {_METADATA}: false switches off"
_NO_PARTITIONS = f"{PARTITION_STATS} is for tables with partitionBy"
_NOT_IN_PARTITION = (
    f"{RECORD_INDEX} says that keys are unique in the whole table, and uniqueness says Partition"
)
_NOT_BY_BUCKET = (
    f"{RECORD_INDEX} says that keys are unique in the whole table, and a BUCKET index looks for a "
    "key in its partition only"
)


def _without(needed: str, name: str) -> str:
    return f"{name} is worth nothing without {needed}: list that as well"


def _rule(condition: str, message: str) -> CelRule:
    """Of a spec that lists indexes."""
    return CelRule(f"!has(self.indexes) || {condition}", message, field="indexes")


_HAS_RECORD_INDEX = f"'{RECORD_INDEX}' in self.indexes"
INDEX_RULES = (
    _rule("self.indexes.all(i, self.indexes.exists_one(j, i == j))", _TWICE),
    *(
        _rule(
            f"!self.indexes.exists(i, i.startsWith('{name}')) || '{needed}' in self.indexes",
            _without(needed, name),
        )
        for name in (PARTITION_STATS, SECONDARY_INDEX)
        for needed in needed_by(name)
    ),
    _rule(
        f"!('{PARTITION_STATS}' in self.indexes) || "
        "has(self.partitionBy) && self.partitionBy.size() > 0",
        _NO_PARTITIONS,
    ),
    _rule(
        f"self.tableVersion != {_WITH_FEWER} || self.indexes.all(i, i in {list(_OF_VERSION_6)})",
        _NOT_IN_VERSION,
    ),
    _rule(
        "self.indexes.size() == 0 || !has(self.properties) || "
        f"!('{_METADATA}' in self.properties) || self.properties['{_METADATA}'] != 'false'",
        _NO_METADATA,
    ),
    _rule(
        f"!({_HAS_RECORD_INDEX}) || !has(self.uniqueness) || self.uniqueness != 'Partition'",
        _NOT_IN_PARTITION,
    ),
    _rule(
        f"!({_HAS_RECORD_INDEX}) || !has(self.index) || self.index.type != 'BUCKET'",
        _NOT_BY_BUCKET,
    ),
)


def index_faults(spec: Any) -> Iterator[tuple[str, str]]:
    """The same for a parsed spec."""
    names: Sequence[str] = spec.indexes
    if not names:
        return
    for position, name in enumerate(names):
        if name in names[:position]:
            yield f"indexes[{position}]", f"{name!r} appears twice"
        for needed in needed_by(name):
            if needed not in names:
                yield f"indexes[{position}]", _without(needed, name)
        if name.startswith(SECONDARY_INDEX):
            for message in _column_faults(name.removeprefix(SECONDARY_INDEX), spec.schema):
                yield f"indexes[{position}]", message
    if PARTITION_STATS in names and not spec.partition_by:
        yield "indexes", _NO_PARTITIONS
    if spec.table_version == _WITH_FEWER and not set(names) <= set(_OF_VERSION_6):
        yield "indexes", _NOT_IN_VERSION
    if spec.properties.get(_METADATA, "").lower() == "false":
        yield "indexes", _NO_METADATA
    if RECORD_INDEX not in names:
        return
    if spec.uniqueness is Uniqueness.PARTITION:
        yield "indexes", _NOT_IN_PARTITION
    if spec.index is not None and spec.index.type is IndexType.BUCKET:
        yield "indexes", _NOT_BY_BUCKET


def _column_faults(name: str, schema: Sequence[ColumnSpec]) -> Iterator[str]:
    """Where a schema is declared, a secondary index is of one of its columns, of a type that is
    followed."""
    if not schema:
        return
    column = next((column for column in schema if column.name == name), None)
    if column is None:
        yield f"spec.schema has no column {name!r}"
    elif str(column.type) not in FOLLOWED_TYPES:
        yield (
            f"{name} is of type {column.type}: secondary indexes are of texts, whole numbers or "
            f"booleans ({', '.join(sorted(FOLLOWED_TYPES))})"
        )
