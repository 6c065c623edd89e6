"""How the columns of a data file are encoded, and keeping dictionaries clean.

Encoding with a dictionary costs time and helps only columns whose values repeat, so it is decided
from a sample of the first row group. Columns that arrive as Arrow dictionaries stay so: encoding
them again is nearly free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

# Parquet gives a dictionary up when its page grows beyond this.
_DICTIONARY_BYTES_MAX = 1024 * 1024
_ROWS_PER_VALUE_MIN = 8
_SAMPLE_SLICES = 4
_SAMPLE_SLICE_ROWS = 4096
# Bytes of a text value's length, in the Arrow array as in the file.
_LENGTH_BYTES = 4
# A dictionary of narrow values pays only while its indices are much narrower still.
_ENTRIES_MAX_OF_WIDTH = {8: 65_536, 4: 4_096}


def leaf_columns(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Path, as parquet spells it, and type of every leaf column."""
    for field in schema:
        yield from _leaves(field.name, field.type)


def dictionary_paths(table: pa.Table) -> list[str]:
    """Paths of the leaf columns worth a dictionary, checked by the rows of `table`."""
    paths: list[str] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        if types.is_nested(field.type):
            paths += [path for path, leaf in _leaves(field.name, field.type) if is_text(leaf)]
        elif types.is_dictionary(field.type) or _repeats(_storage(column)):
            paths.append(field.name)
    return paths


def is_text(data_type: pa.DataType) -> bool:
    """Whether values have any length: strings and binaries."""
    return bool(types.is_string(data_type) or types.is_binary(data_type))


def encoded(column: pa.Array) -> pa.Array:
    """The column as a dictionary array."""
    return column if types.is_dictionary(column.type) else column.dictionary_encode()


def decoded(column: pa.Array) -> pa.Array:
    """The column without a dictionary."""
    return column.dictionary_decode() if types.is_dictionary(column.type) else column


def without_unused_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary column with one dictionary for all chunks, holding only values in use.

    Values of deleted and updated rows would otherwise stay readable in the new file.
    """
    unified = column.unify_dictionaries()
    if unified.num_chunks == 0:
        return unified
    dictionary = unified.chunk(0).dictionary
    used = np.zeros(len(dictionary), dtype=np.bool_)
    for chunk in unified.chunks:
        used[chunk.indices.drop_null().to_numpy(zero_copy_only=False)] = True
    if used.all():
        return unified
    renumbered = pa.array(np.cumsum(used, dtype=np.int32) - 1)
    kept = dictionary.filter(pa.array(used))
    chunks = [
        pa.DictionaryArray.from_arrays(renumbered.take(chunk.indices), kept)
        for chunk in unified.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), kept.type))


def _leaves(path: str, data_type: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if types.is_struct(data_type):
        for child in data_type:
            yield from _leaves(f"{path}.{child.name}", child.type)
    elif types.is_map(data_type):
        yield from _leaves(f"{path}.key_value.key", data_type.key_type)
        yield from _leaves(f"{path}.key_value.value", data_type.item_type)
    elif types.is_list(data_type):
        yield from _leaves(f"{path}.list.element", data_type.value_type)
    else:
        yield path, data_type


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The values of an extension type, as they are stored."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    chunks = [chunk.storage for chunk in column.chunks]
    return pa.chunked_array(chunks, column.type.storage_type)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether the sample lets expect each value often enough, in a dictionary small enough."""
    if types.is_boolean(column.type):
        return False
    sample = _sample(column)
    present = len(sample) - sample.null_count
    if present == 0:
        return True
    if is_text(column.type):
        width = _LENGTH_BYTES + sample.nbytes // present
        entries_max = _DICTIONARY_BYTES_MAX // width
    else:
        width = int(column.type.bit_width) // 8
        entries_max = _ENTRIES_MAX_OF_WIDTH.get(width, _DICTIONARY_BYTES_MAX // width)
    entries_max = min(entries_max, len(column) // _ROWS_PER_VALUE_MIN)
    if entries_max < 1:
        return False
    # Distinct values to expect in the sample, were there `entries_max`, equally frequent.
    expected = math.ceil(entries_max * (1 - math.exp(-present / entries_max)))
    distinct: int = pc.count_distinct(sample, mode="only_valid").as_py()
    return bool(distinct <= expected)


def _sample(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if len(column) <= _SAMPLE_SLICES * _SAMPLE_SLICE_ROWS:
        return column
    stride = len(column) // _SAMPLE_SLICES
    slices = [
        chunk
        for position in range(_SAMPLE_SLICES)
        for chunk in column.slice(position * stride, _SAMPLE_SLICE_ROWS).chunks
    ]
    return pa.chunked_array(slices, column.type)
