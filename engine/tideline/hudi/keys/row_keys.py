"""Record keys and partition paths of rows in Arrow, as a table's key generator makes them.

What differs from row to row is done by Arrow; what partition paths are made of is seen once for
each distinct value. `tideline.spark.write.keys` does the same in Spark's expressions.
Source: Hudi's KeyGenUtils, PartitionPathEncodeUtils.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import (
    DEFAULT_PARTITION,
    EMPTY_KEY,
    ESCAPED_CHARACTERS,
    NULL_KEY,
    KeyGenerator,
    PartitionField,
)
from tideline.hudi.keys.key_text import Flags, has_two_texts, key_texts, texts_of_sql
from tideline.hudi.keys.partition_time import formatted_times

_ESCAPES = str.maketrans({character: f"%{ord(character):02X}" for character in ESCAPED_CHARACTERS})


def record_keys(rows: pa.RecordBatch, keys: KeyGenerator) -> pa.Array:
    """The record key of every row, null where it has none: a null or empty simple key, nothing but
    nulls and empties in a qualified one, or a number with two texts. Raises ConfigError for a key
    field that is not there.
    """
    as_text = keys.timestamps_as_text
    has_none = pa.array(_any_with_two_texts(rows, keys.record_fields, as_text=as_text))
    texts = [_texts(rows, name, as_text=as_text) for name in keys.record_fields]
    if not keys.qualified and len(texts) == 1:
        return _null_where(pc.or_kleene(pc.equal(texts[0], ""), has_none), texts[0])
    parts = []
    has_no_value = pa.repeat(pa.scalar(True), rows.num_rows)
    for name, text in zip(keys.record_fields, texts, strict=True):
        is_empty = pc.equal(text, "")
        has_no_value = pc.and_(has_no_value, pc.fill_null(is_empty, True))
        marked = pc.fill_null(pc.if_else(is_empty, EMPTY_KEY, text), NULL_KEY)
        parts.append(pc.binary_join_element_wise(name, marked, ":"))
    return _null_where(pc.or_(has_no_value, has_none), pc.binary_join_element_wise(*parts, ","))


def partition_paths(rows: pa.RecordBatch, keys: KeyGenerator) -> pa.DictionaryArray:
    """The partition path of every row, `""` in a table without partitions.

    Null where a time is to be formatted and the value is none, and for numbers with two texts.
    Raises ConfigError for a partition field that is not there, or whose type makes no path.
    """
    if not keys.partition_fields:
        indices = pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows)
        return pa.DictionaryArray.from_arrays(indices, pa.array([""]))
    levels = [_level(rows, part, keys) for part in keys.partition_fields]
    if len(levels) == 1:
        return levels[0].dictionary_encode()
    return pc.binary_join_element_wise(*levels, "/").dictionary_encode()


def with_two_texts(rows: pa.RecordBatch, keys: KeyGenerator) -> Flags:
    """Which rows have a value with two texts, and with it no key or no path."""
    found = _any_with_two_texts(rows, keys.record_fields, as_text=keys.timestamps_as_text)
    parts = keys.plain_partition_fields
    as_text = keys.paths_have_times_as_text or keys.paths_are_of_sql
    return found | _any_with_two_texts(rows, parts, as_text=as_text)


def _level(rows: pa.RecordBatch, part: PartitionField, keys: KeyGenerator) -> pa.Array:
    """One level of the path."""
    as_text = keys.paths_have_times_as_text
    has_none, escapes = None, keys.url_encode
    if part.timestamp is None and keys.paths_are_of_sql and _is_moment(rows, part.field):
        encoded, escapes = texts_of_sql(_column(rows, part.field)).dictionary_encode(), True
    elif part.timestamp is None:
        encoded = _texts(rows, part.field, as_text=as_text).dictionary_encode()
        has_none = _any_with_two_texts(rows, (part.field,), as_text=as_text)
    else:
        encoded = formatted_times(_column(rows, part.field), part.timestamp, moments=as_text)
    prefix = f"{part.field}=" if keys.hive_style else ""
    spelled = [prefix + _spelled(text, escapes=escapes) for text in encoded.dictionary.to_pylist()]
    levels = pa.array(spelled, pa.string()).take(encoded.indices)
    if has_none is None:
        return levels
    levels = pc.fill_null(levels, pa.scalar(prefix + DEFAULT_PARTITION))
    return _null_where(pa.array(has_none), levels)


def _spelled(text: str, *, escapes: bool) -> str:
    if not text:
        return DEFAULT_PARTITION
    return text.translate(_ESCAPES) if escapes else text


def _is_moment(rows: pa.RecordBatch, dotted: str) -> bool:
    kind = _column(rows, dotted).type
    return types.is_timestamp(kind) and kind.tz is not None


def _texts(rows: pa.RecordBatch, dotted: str, *, as_text: bool) -> pa.Array:
    return key_texts(_column(rows, dotted), dotted, timestamps_as_text=as_text)


def _any_with_two_texts(rows: pa.RecordBatch, names: Iterable[str], *, as_text: bool) -> Flags:
    found = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        found |= has_two_texts(_column(rows, name), timestamps_as_text=as_text)
    return found


def _column(rows: pa.RecordBatch, dotted: str) -> pa.Array:
    """A column, or a field nested in one, by its dotted name in any case."""
    column: pa.Array = pa.StructArray.from_arrays(rows.columns, rows.schema.names)
    for step in dotted.split("."):
        names = [item.name for item in column.type] if types.is_struct(column.type) else []
        matches = {name.casefold(): name for name in reversed(names)}
        name = step if step in names else matches.get(step.casefold())
        if name is None:
            raise ConfigError(f"key field {dotted!r} is not a column of the input", value=dotted)
        column = pc.struct_field(column, names.index(name))
    return column


def _null_where(condition: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(condition, False), pa.scalar(None, pa.string()), texts)
