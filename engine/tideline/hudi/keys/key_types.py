"""Types of key and partition columns: which of them a write may change without changing the texts.

A record key and a partition path are text made of values: 1 of a long, 1.0 of a double. Where the
type of such a column differs, the same value is another key, and its row is stored twice. So

1. integers may become wider, and be written to columns of wider integers or doubles that hold each
   of them;
2. what else would widen, or be promoted, is refused by name;
3. rows that are only keys, to be deleted, need a type whose texts are those of the table's.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.table.column_type import fits_in, stored_type, widens_to

_EXACT = {(pa.int32(), pa.float64()), (pa.float32(), pa.float64())}
"""Promotions in which no two values become one."""


def check_key_types(
    table_schema: pa.Schema | None,
    incoming: pa.Schema,
    keys: KeyGenerator,
    *,
    replaces_all: bool = False,
    deletes: bool = False,
) -> None:
    """Raise InvalidDataError for a key or partition column of another type than the table's, unless
    its values are the same texts.

    Columns that are missing, or cannot change at all, are checked elsewhere. A write that replaces
    all rows of the table may change any type; one that deletes may give any with the same texts.
    """
    if table_schema is None or replaces_all:
        return
    fields = (*keys.record_fields, *(part.field for part in keys.partition_fields))
    for name in dict.fromkeys(fields):
        stored, given = type_at(table_schema, name), type_at(incoming, name)
        if stored is None or given is None:
            continue
        given = stored_type(given, name, keep_millis=True)
        if given != stored and not _keeps_texts(stored, given, deletes=deletes):
            role = "record key" if name in keys.record_fields else "partition path"
            raise InvalidDataError(
                f"column {name} is part of the {role}, and a value of {given} is another one there "
                f"than the same value of {stored}, which the table has: its row would be stored "
                f"twice, or not be found; give it as {stored}, or rewrite the whole table "
                "(insert_overwrite_table)",
                value=f"{stored} and {given}",
            )


def type_at(schema: Iterable[pa.Field], dotted: str) -> pa.DataType | None:
    """The type of a column or nested field by its dotted name, in any case; None where absent."""
    kind: pa.DataType | None = None
    fields = list(schema)
    for step in dotted.split("."):
        named = {item.name.casefold(): item for item in reversed(fields)}
        named |= {item.name: item for item in fields}
        found = named.get(step, named.get(step.casefold()))
        if found is None:
            return None
        kind = found.type
        fields = list(kind) if types.is_struct(kind) else []
    return kind


def _keeps_texts(stored: pa.DataType, given: pa.DataType, *, deletes: bool) -> bool:
    if types.is_null(given) or (types.is_integer(stored) and types.is_integer(given)):
        return True
    if widens_to(given, stored):
        return (given, stored) in _EXACT
    if widens_to(stored, given):
        return False
    if not deletes:
        # Other changes are promotions to the table's type, or no changes that a table allows.
        return True
    texts = types.is_string(stored) or types.is_string(given)
    return texts or fits_in(given, stored) or _family(stored) == _family(given)


def _family(kind: pa.DataType) -> str:
    """Types of one name print one value alike."""
    if types.is_timestamp(kind):
        return "timestamp"
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if types.is_decimal(kind):
        return f"decimal with {kind.scale} digits after the point"
    return str(kind)
