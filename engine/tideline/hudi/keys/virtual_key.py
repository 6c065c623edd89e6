"""Record keys of stored rows in a table without meta columns, computed from the key columns.

The text of every type is what the key generator gave when the row was written.
Source: Hudi `KeyGenUtils.getRecordKey`, `HoodieAvroUtils.getNestedFieldValAsString`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.index.bucket import EMPTY_KEY_VALUE, NULL_KEY_VALUE
from tideline.hudi.keys.key_text import key_texts


def virtual_keys(rows: pa.RecordBatch, fields: Sequence[str], *, qualified: bool) -> pa.Array:
    """Keys of `rows`: the only field's value, or `f1:v1,f2:v2` when `qualified`.

    Raises UnsupportedTableError for a key column whose text Arrow does not spell as Java does.
    """
    texts = [_text(column_at(rows, name), name) for name in fields]
    if not qualified and len(texts) == 1:
        return texts[0]
    parts = []
    for name, text in zip(fields, texts, strict=True):
        marked = pc.if_else(pc.equal(text, ""), EMPTY_KEY_VALUE, text)
        parts.append(pc.binary_join_element_wise(name, pc.fill_null(marked, NULL_KEY_VALUE), ":"))
    return pc.binary_join_element_wise(*parts, ",")


def column_at(rows: pa.RecordBatch, dotted: str) -> pa.Array:
    """A column, or a field nested in one, by its dotted name. Raises ConfigError when absent."""
    name, *inner = dotted.split(".")
    if name not in rows.schema.names:
        raise ConfigError("no such column", value=dotted)
    column = rows.column(name)
    for step in inner:
        if not types.is_struct(column.type) or column.type.get_field_index(step) < 0:
            raise ConfigError("no such column", value=dotted)
        column = pc.struct_field(column, step)
    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def _text(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if types.is_string(kind):
        return column
    if types.is_timestamp(kind):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind):
        return key_texts(column, name)
    raise UnsupportedTableError(
        f"record key column {name} of type {kind} in a table without meta columns", value=name
    )
