"""Columns of Arrow as Avro records, all records at once.

1. A type becomes parts, which follow one another in each record: an array of bytes with a value for
   each record, or bytes that are the same in all.
2. Numbers are written by numpy as a table of bytes, cut to the length that each has; texts are
   Arrow's own bytes behind their lengths.
3. What may be null is encoded without its nulls, which are put between afterwards. Items of lists
   are encoded all at once, and cut where the lists are.
4. One kernel of Arrow joins the parts of each record.

Schemas are physical (see `tideline.formats.avro.physical_schema`), and such as `avro_types` takes.
Bytes are those that fastavro makes. `avro_column_reader` is the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.formats.avro_types import resolved_record

Part: TypeAlias = pa.Array | bytes
_Numbers = npt.NDArray[np.int64]
_Octets = npt.NDArray[np.uint8]
_BYTES = pa.large_binary()
_ROWS_AT_ONCE = 1 << 15
_FLOATS = {"float": (pa.float32(), "<f4"), "double": (pa.float64(), "<f8")}


def takes(schema_json: str) -> bool:
    """Whether records of this schema are encoded here."""
    return resolved_record(schema_json) is not None


def encode_framed_rows(schema_json: str, rows: pa.Table) -> bytes:
    """The records of rows, each behind its length in four bytes, as a log block has them.

    The columns are those of the schema, in its order; text of one value may be a dictionary. Raises
    ValueError for a null where none may be.
    """
    schema = resolved_record(schema_json)
    assert schema is not None, "the schema is one that is taken"
    found = []
    for batch in rows.combine_chunks().to_batches(max_chunksize=_ROWS_AT_ONCE):
        parts: list[Part] = []
        for field, column in zip(schema["fields"], batch.columns, strict=True):
            parts += _column_parts(field["type"], column)
        lengths = sum(map(_part_lengths, parts), np.zeros(batch.num_rows, np.int64))
        frames = _fixed(lengths.astype(">i4").view(np.uint8).reshape(batch.num_rows, 4))
        found.append(_content(_joined([frames, *parts], batch.num_rows)))
    return b"".join(found)


def _column_parts(schema: Any, column: pa.Array) -> list[Part]:
    """Those of a column; of a single value the same bytes in all records."""
    if not types.is_dictionary(column.type):
        return _parts(schema, column)
    if len(column.dictionary) == 1 and not column.null_count:
        return [_joined(_parts(schema, column.dictionary), 1)[0].as_py()]
    return _parts(schema, column.dictionary_decode())


def _parts(schema: Any, values: pa.Array) -> list[Part]:
    """Those of values of a type."""
    if isinstance(schema, list):
        return _union_parts(schema, values)
    kind = schema["type"]
    if kind == "null":
        return []
    if values.null_count:
        raise ValueError(f"a null where the schema has {kind}")
    if kind in ("int", "long"):
        return [_varints(values.cast(pa.int64()).to_numpy())]
    if kind in ("string", "bytes"):
        content = _as_bytes(values)
        return [_varints(_part_lengths(content)), content]
    if kind in _FLOATS:
        stored, form = _FLOATS[kind]
        octets = values.cast(stored).to_numpy().astype(form, copy=False).view(np.uint8)
        return [_fixed(octets.reshape(len(values), stored.bit_width // 8))]
    if kind == "boolean":
        return [_fixed(values.cast(pa.uint8()).to_numpy().reshape(-1, 1))]
    if kind == "fixed":
        return [_as_bytes(values)]
    if kind == "enum":
        return [_varints(_symbol_numbers(schema["symbols"], values))]
    if kind == "array":
        return _array_parts(schema["items"], values)
    found: list[Part] = []
    for number, field in enumerate(schema["fields"]):
        found += _parts(field["type"], values.field(number))
    return found


def _union_parts(branches: list[Any], values: pa.Array) -> list[Part]:
    """Behind the number of the branch that a value is of: null, or the other one."""
    kinds = [branch["type"] for branch in branches]
    number = next((place for place, kind in enumerate(kinds) if kind != "null"), 0)
    begin = bytes([2 * number])
    if not values.null_count:
        return [begin, *_parts(branches[number], values)]
    if "null" not in kinds:
        raise ValueError(f"a null where the schema has {kinds[0]}")
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    present = values.drop_null()
    encoded = _joined([begin, *_parts(branches[number], present)], len(present))
    places = np.cumsum(is_valid) - 1
    spread = encoded.take(pa.array(places, mask=~is_valid))
    return [pc.fill_null(spread, pa.scalar(bytes([2 * kinds.index("null")]), _BYTES))]


def _array_parts(items: Any, lists: pa.Array) -> list[Part]:
    """One block of all items behind their number, and the end, which is all that an empty list
    has."""
    counts: _Numbers = lists.value_lengths().to_numpy().astype(np.int64)
    inside = lists.flatten()
    encoded = _joined(_parts(items, inside), len(inside))
    bounds = _offsets(encoded)[np.concatenate([[0], np.cumsum(counts)])]
    blocks = _cut(bounds, np.frombuffer(encoded.buffers()[2] or b"", np.uint8))
    ends = _cut(_bounds((counts > 0).astype(np.int64)), np.zeros(len(counts), np.uint8))
    return [_varints(counts), blocks, ends]


def _symbol_numbers(symbols: list[str], values: pa.Array) -> _Numbers:
    found = pc.index_in(values, value_set=pa.array(symbols, pa.string()))
    if found.null_count:
        raise ValueError("a text that is none of the symbols")
    numbers: _Numbers = found.to_numpy().astype(np.int64)
    return numbers


def _joined(parts: Sequence[Part], count: int) -> pa.Array:
    """The records that these parts make, one behind the other."""
    merged: list[Part] = []
    for part in parts:
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    if all(isinstance(part, bytes) for part in merged):
        return pa.repeat(pa.scalar(b"".join(merged), _BYTES), count)
    if len(merged) == 1:
        return merged[0]
    given = [pa.scalar(part, _BYTES) if isinstance(part, bytes) else part for part in merged]
    return pc.binary_join_element_wise(*given, pa.scalar(b"", _BYTES))


def _varints(values: _Numbers) -> pa.Array:
    """Numbers in zigzag variable length form."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    greatest = int(zigzag.max(initial=0))
    width = max(1, -(-greatest.bit_length() // 7))
    if width == 1:
        return _fixed(zigzag.astype(np.uint8).reshape(-1, 1))
    lengths = np.ones(len(values), np.int64)
    octets = np.empty((len(values), width), np.uint8)
    for place in range(width):
        if place:
            lengths += zigzag != 0
        octets[:, place] = (zigzag & np.uint64(0x7F)) | np.uint64(0x80)
        zigzag = zigzag >> np.uint64(7)
    octets[np.arange(len(values)), lengths - 1] &= np.uint8(0x7F)
    if int(lengths.min()) == width:
        return _fixed(octets)
    return _cut(_bounds(lengths), octets[np.arange(width) < lengths[:, None]])


def _fixed(octets: _Octets) -> pa.Array:
    """A row of bytes for each record."""
    count, width = octets.shape
    return _cut(np.arange(count + 1, dtype=np.int64) * width, np.ascontiguousarray(octets))


def _cut(bounds: _Numbers, octets: _Octets) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(bounds, np.int64)), pa.py_buffer(octets)]
    return pa.Array.from_buffers(_BYTES, len(bounds) - 1, buffers)


def _bounds(lengths: _Numbers) -> _Numbers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _offsets(values: pa.Array) -> _Numbers:
    """Where the values of an array of bytes lie."""
    found = np.frombuffer(values.buffers()[1] or bytes(8), np.int64)
    return found[values.offset : values.offset + len(values) + 1]


def _part_lengths(part: Part) -> _Numbers:
    if isinstance(part, bytes):
        return np.array([len(part)], np.int64)
    return np.diff(_offsets(part))


def _content(values: pa.Array) -> bytes:
    bounds = _offsets(values)
    body = values.buffers()[2]
    return b"" if body is None else memoryview(body)[int(bounds[0]) : int(bounds[-1])].tobytes()


def _as_bytes(values: pa.Array) -> pa.Array:
    """Texts, or bytes of any form, as they are."""
    if types.is_string(values.type):
        values = values.cast(pa.binary())
    return values if values.type == _BYTES else values.cast(_BYTES)
