"""Which columns of a table have statistics in its metadata table, and in which form.

The definition of `column_stats` lists the columns that queries of Hudi's prune by. What its writers
index follows their settings, which a table does not keep: a list, or the first 32 columns that can
be compared. A list that the second rule explains is taken for one of that rule, so that columns
that were added since are indexed as well. They are not added to the list: files from before have no
row of them, and Hudi takes a file without a row of a listed column for one without its values.

Source: Hudi's HoodieTableMetadataUtil.getColumnsToIndex, isColumnTypeSupported, HoodieIndexVersion.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.hudi.metadata_table.index_definitions import read_definitions
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS
from tideline.hudi.timeline.column_range import ValueKind, ValueType

RECORD_KEY = "_hoodie_record_key"
META_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", RECORD_KEY)
"""The meta columns that are always indexed."""
COLUMNS_MAX = 32
"""How many of the table's own columns are indexed where no list says otherwise."""

_DECIMAL_DIGITS_MAX, _DECIMAL_SCALE_MAX = 30, 15
_NOT_OWN = (*META_COLUMNS, "_hoodie_commit_seqno", "_hoodie_file_name", "_hoodie_operation")
_PLAIN = (ValueKind.BYTES, ValueKind.FIXED, ValueKind.DECIMAL)
_PRIMITIVES = {
    "boolean": ValueKind.BOOLEAN,
    "int": ValueKind.INT,
    "long": ValueKind.LONG,
    "float": ValueKind.FLOAT,
    "double": ValueKind.DOUBLE,
    "string": ValueKind.STRING,
    "bytes": ValueKind.BYTES,
    "fixed": ValueKind.FIXED,
}
_LOGICAL = {
    "uuid": ValueKind.UUID,
    "date": ValueKind.DATE,
    "time-millis": ValueKind.TIME_MILLIS,
    "time-micros": ValueKind.TIME_MICROS,
    "timestamp-millis": ValueKind.TIMESTAMP_MILLIS,
    "timestamp-micros": ValueKind.TIMESTAMP_MICROS,
    "timestamp-nanos": ValueKind.TIMESTAMP_NANOS,
    "local-timestamp-millis": ValueKind.LOCAL_TIMESTAMP_MILLIS,
    "local-timestamp-micros": ValueKind.LOCAL_TIMESTAMP_MICROS,
    "local-timestamp-nanos": ValueKind.LOCAL_TIMESTAMP_NANOS,
}
_DECIMAL = "decimal"


@dataclass(frozen=True, slots=True)
class IndexedColumns:
    """The columns that files get rows of, with their types in the table's schema.

    `listed` are those that queries prune by. `has_types`: rows say the type of their bounds, which
    is the second version of the index.
    """

    types: Mapping[str, ValueType]
    listed: tuple[str, ...]
    has_types: bool = True
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.types))


def indexed_columns(table: HoodieTable, schema_json: str) -> IndexedColumns | str:
    """The columns by the table's definitions and this schema, which may lack the meta columns; or
    what is in the way.

    Raises CorruptTableError where the definitions cannot be read.
    """
    return columns_defined(table, schema_json, read_definitions(table).get(COLUMN_STATS))


def columns_defined(table: HoodieTable, schema_json: str, defined: Any) -> IndexedColumns | str:
    """The same by a definition that is not stored yet."""
    listed = defined.get("sourceFields") if isinstance(defined, Mapping) else None
    if not isinstance(listed, list) or not listed:
        return "no definition lists its columns"
    version = defined.get("version") if isinstance(defined, Mapping) else None
    has_types = version == "V2" if version else table.layout.table_version >= 9
    known = _known_columns(table, schema_json)
    there = [name for name in listed if name in known]
    unknown = [name for name in listed if known.get(name) is None and _is_in(name, known)]
    if unknown:
        return f"values of {', '.join(map(repr, unknown))} have no order here"
    own = [name for name in there if name not in META_COLUMNS]
    rules = (rule for rule in _rules(known, has_types=has_types) if len(rule) <= COLUMNS_MAX)
    added = next((rule for rule in rules if own == rule[: len(own)]), [])
    names = dict.fromkeys((*there, *added))
    types = {name: found for name in names if (found := known[name]) is not None}
    too_long = [name for name, found in types.items() if not has_types and not _fits(found)]
    if too_long:
        return f"{', '.join(too_long)} has more digits than this version of the index holds"
    return IndexedColumns(types, tuple(there), has_types)


def column_definition(
    table: HoodieTable,
    schema_json: str,
    columns: Collection[str] | None = None,
    columns_max: int | None = None,
) -> dict[str, Any] | str:
    """The definition of `column_stats` for a table that gets it: of these columns, or of all that
    any writer of Hudi's would index; or what is in the way.

    Where one of these adds a column later, files from before have no row of it.
    """
    has_types = table.layout.table_version >= 9
    known = _known_columns(table, schema_json)
    rules = _rules(known, has_types=has_types)
    own = rules[-1]
    if columns is None:
        limit = COLUMNS_MAX if columns_max is None else columns_max
        wanted = {name for rule in rules for name in rule[:limit]}
        own = [name for name in own if name in wanted]
    else:
        unknown = [name for name in columns if name not in own and name not in META_COLUMNS]
        if unknown:
            there = ", ".join(own)
            return f"no column {', '.join(map(repr, unknown))} can be indexed; these can: {there}"
        own = [name for name in own if name in columns]
    meta = [name for name in META_COLUMNS if name in known]
    if not own:
        return "it has no column whose values have an order"
    return {
        "indexName": COLUMN_STATS,
        "indexType": COLUMN_STATS,
        "indexFunction": COLUMN_STATS,
        "sourceFields": [*meta, *own],
        "indexOptions": {},
        "version": "V2" if has_types else "V1",
    }


def indexable_columns(table: HoodieTable, schema_json: str) -> tuple[str, ...]:
    """The table's own columns that statistics can be made of in its version."""
    has_types = table.layout.table_version >= 9
    return tuple(_rules(_known_columns(table, schema_json), has_types=has_types)[-1])


def column_types(schema_json: str) -> Iterator[tuple[str, ValueType | None]]:
    """The columns of an Avro schema; None for one whose values have no order."""
    for column in json.loads(schema_json)["fields"]:
        yield column["name"], _type_of(column["type"])


def _rules(known: Mapping[str, ValueType | None], *, has_types: bool) -> tuple[list[str], ...]:
    """What Hudi's writers index of the table's own columns where no list and no limit says
    otherwise. In the first version of the index that depends on how they hold rows: as records of
    Avro, then the last rule counts, or not."""
    own = {
        name: found for name, found in known.items() if found is not None and name not in _NOT_OWN
    }
    if has_types:
        return (list(own),)
    return (
        [name for name, found in own.items() if found.kind not in _PLAIN],
        [name for name, found in own.items() if _fits(found)],
    )


def _known_columns(table: HoodieTable, schema_json: str) -> dict[str, ValueType | None]:
    """The columns of a schema that may lack the meta columns, with these where the table has
    them."""
    known: dict[str, ValueType | None] = {}
    if table.config.populate_meta_fields:
        known |= dict.fromkeys(META_COLUMNS, ValueType(ValueKind.STRING))
    return known | dict(column_types(schema_json))


def _is_in(name: str, known: Iterable[str]) -> bool:
    """Whether a listed name is a column, or a part of one, of the schema."""
    return name.partition(".")[0] in set(known)


def _fits(found: ValueType) -> bool:
    if found.kind is not ValueKind.DECIMAL:
        return True
    precision = int((found.digits or "0").partition(",")[0])
    left = precision + _DECIMAL_SCALE_MAX - found.scale
    return left <= _DECIMAL_DIGITS_MAX and found.scale <= _DECIMAL_SCALE_MAX


def _type_of(avro: Any) -> ValueType | None:
    if isinstance(avro, list):
        others = [branch for branch in avro if branch != "null"]
        return _type_of(others[0]) if len(others) == 1 else None
    if isinstance(avro, str):
        kind = _PRIMITIVES.get(avro)
        return None if kind is None else ValueType(kind)
    logical = avro.get("logicalType")
    if logical == _DECIMAL:
        return ValueType.decimal(avro["precision"], avro.get("scale", 0))
    kind = _LOGICAL.get(logical) or _PRIMITIVES.get(avro["type"])
    if kind is None and not isinstance(avro["type"], str):
        return _type_of(avro["type"])
    return None if kind is None else ValueType(kind)
