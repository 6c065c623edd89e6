"""A version of the schema after a write or a read whose columns are not quite its own. Pure.

1. A column of both keeps its id, and takes the new type where that differs; one that may be null in
   either may be null.
2. A column that only the rows have gets a new id, at the end; so do the fields below it. An id is
   never given twice, so that a column that was dropped does not come back with its old values.
3. A column that only the version has goes, but for meta columns.

Source: Hudi's AvroSchemaEvolutionUtils.reconcileSchema, TableChanges.ColumnAddChange,
InternalSchemaBuilder.refreshNewId, InternalSchemaConverter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.avro_schema import decimal_bytes
from tideline.hudi.table.column_type import is_list_like, stored_type
from tideline.hudi.table.internal_schema import (
    InternalField,
    InternalList,
    InternalMap,
    InternalSchema,
    InternalStruct,
    InternalType,
)
from tideline.hudi.table.meta_column import is_meta_column

_DECIMAL = re.compile(r"decimal(?:_bytes|_fixed)?\((\d+),\s*(\d+)\)(?:\[\d+\])?")
_FIXED = re.compile(r"fixed\[(\d+)\]")


def reconciled(
    current: InternalSchema, schema: pa.Schema, version: int | None = None
) -> InternalSchema:
    """`current` with exactly the user columns of `schema`, as a new version if that is a change.

    Raises UnsupportedTableError for a type that schema histories have no word for.
    """
    ids = _Ids(current.max_column_id + 1)
    root = _struct(current.root, schema, ids, is_table=True)
    if root == current.root:
        return current
    return InternalSchema(current.version if version is None else version, ids.next - 1, root)


@dataclass(slots=True)
class _Ids:
    """The ids that nothing had yet."""

    next: int

    def take(self, count: int = 1) -> int:
        """The first of so many new ids."""
        first, self.next = self.next, self.next + count
        return first


def _struct(
    known: InternalStruct, columns: Iterable[pa.Field], ids: _Ids, *, is_table: bool = False
) -> InternalStruct:
    wanted = {item.name: item for item in columns}
    matched, fields = set(), []
    for item in known.fields:
        column = wanted.get(item.name) or _ignoring_case(wanted, item.name, known)
        if column is not None:
            matched.add(column.name)
            kind = _type(item.type, column.type, ids)
            optional = item.is_optional or column.nullable
            fields.append(replace(item, type=kind, is_optional=optional))
        elif is_table and is_meta_column(item.name):
            fields.append(item)
    for name, column in wanted.items():
        if name not in matched:
            number = ids.take()
            fields.append(InternalField(number, name, _new_type(column.type, ids)))
    return InternalStruct(tuple(fields))


def _ignoring_case(
    wanted: dict[str, pa.Field], name: str, known: InternalStruct
) -> pa.Field | None:
    exact = {item.name for item in known.fields}
    folded = name.casefold()
    return next(
        (
            item
            for item in wanted.values()
            if item.name.casefold() == folded and item.name not in exact
        ),
        None,
    )


def _type(known: InternalType, wanted: pa.DataType, ids: _Ids) -> InternalType:
    if isinstance(known, InternalStruct) and types.is_struct(wanted):
        return _struct(known, wanted, ids)
    if isinstance(known, InternalList) and is_list_like(wanted):
        item = wanted.value_field
        element = _type(known.element, item.type, ids)
        return replace(
            known, element=element, element_optional=known.element_optional or item.nullable
        )
    if isinstance(known, InternalMap) and types.is_map(wanted):
        item = wanted.item_field
        value = _type(known.value, item.type, ids)
        return replace(known, value=value, value_optional=known.value_optional or item.nullable)
    if isinstance(known, str) and not types.is_nested(wanted):
        stored = stored_type(wanted, "", keep_millis=True)
        return known if _simple_arrow(known) in (None, stored) else _simple(stored)
    raise UnsupportedTableError("schema history: a column became another kind", value=str(wanted))


def _new_type(wanted: pa.DataType, ids: _Ids) -> InternalType:
    stored = stored_type(wanted, "", keep_millis=True)
    if types.is_struct(stored):
        first = ids.take(stored.num_fields)
        return InternalStruct(
            tuple(
                InternalField(first + place, item.name, _new_type(item.type, ids), item.nullable)
                for place, item in enumerate(stored)
            )
        )
    if is_list_like(stored):
        number = ids.take()
        item = stored.value_field
        return InternalList(number, _new_type(item.type, ids), item.nullable)
    if types.is_map(stored):
        number = ids.take(2)
        item = stored.item_field
        return InternalMap(number, "string", number + 1, _new_type(item.type, ids), item.nullable)
    return _simple(stored)


def _simple(stored: pa.DataType) -> str:
    """Hudi's word for a simple type."""
    if types.is_decimal(stored):
        size = decimal_bytes(stored.precision)
        return f"decimal_fixed({stored.precision}, {stored.scale})[{size}]"
    if types.is_fixed_size_binary(stored):
        return f"fixed[{stored.byte_width}]"
    if stored not in _WORDS:
        # Hudi writes words for some types that it cannot read back itself.
        raise UnsupportedTableError(
            "a table with a schema history takes no new columns of this type", value=str(stored)
        )
    return _WORDS[stored]


def _simple_arrow(word: str) -> pa.DataType | None:
    """The type that a word of Hudi's stands for; None for one that only Hudi knows."""
    if decimal := _DECIMAL.fullmatch(word):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if fixed := _FIXED.fullmatch(word):
        return pa.binary(int(fixed[1]))
    return _ARROW.get(word)


_WORDS = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.string(): "string",
    pa.binary(): "binary",
}
_ARROW = {word: kind for kind, word in _WORDS.items()} | {
    "time-millis": pa.time32("ms"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
