"""Values as the text that record keys and partition paths are made of, in Arrow.

Values are spelled as Hudi spells them (Java's toString): dates as 2024-01-05, timestamps as raw
microseconds unless the table says otherwise, binary as hex, floating numbers with Java's exponents.
Source: Hudi `HoodieAvroUtils.getNestedFieldValAsString`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError
from tideline.hudi.table.retyped_number import number_texts


def key_texts(column: pa.Array, name: str, *, timestamps_as_text: bool = False) -> pa.Array:
    """The texts of a column's values, null for null.

    `timestamps_as_text`: those without a zone as `2024-01-05 18:00:00.0`. Raises ConfigError for a
    type that makes no key.
    """
    kind = column.type
    if types.is_string(kind):
        return column
    if types.is_timestamp(kind):
        if timestamps_as_text:
            return _time_texts(column)
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if types.is_floating(kind):
        return number_texts(column)
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return _hex(column)
    if types.is_nested(kind):
        raise ConfigError(f"key field {name!r} has a nested type", value=str(kind))
    return column.cast(pa.string())


def _time_texts(column: pa.Array) -> pa.Array:
    """As java.sql.Timestamp has it: no more digits of a second than there are, but one."""
    texts = column.cast(pa.timestamp("us")).cast(pa.string())
    return pc.replace_substring_regex(texts, r"(\.\d+?)0+$", r"\1")


def _hex(column: pa.Array) -> pa.Array:
    distinct = column.dictionary_encode()
    texts = [None if value is None else value.hex() for value in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)
