"""Numbers for rows: equal rows have equal numbers, whatever types their columns have.

1. The values of a column become small numbers, their places among the distinct ones, null included.
   NaN equals NaN, and the two zeros of a float differ.
2. The numbers of several columns are folded into one, as those of a struct's children are.
3. A list is the bytes of its elements' numbers.

Nothing is hashed: numbers are equal for equal rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Codes = npt.NDArray[np.int64]


def row_codes(columns: Sequence[Any], count: int) -> Codes:
    """A number for each of `count` rows with these columns."""
    codes: Codes = np.zeros(count, np.int64)
    for column in columns:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        codes = folded(codes, _codes(whole))
    return codes


def folded(codes: Codes, further: Codes) -> Codes:
    """Equal where both are."""
    if not len(codes):
        return codes
    pairs = codes * (int(further.max()) + 1) + further
    found: Codes = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
    return found


def occurrences(codes: Codes) -> Codes:
    """How many equal ones come before each."""
    order = np.argsort(codes, kind="stable")
    arranged = codes[order]
    starts = np.searchsorted(arranged, arranged)
    found = np.empty(len(codes), np.int64)
    found[order] = np.arange(len(codes)) - starts
    return found


def last_places(codes: Codes) -> Codes:
    """Where each of the codes is for the last time, in order."""
    last: Codes = np.zeros(int(codes.max()) + 1 if len(codes) else 0, np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    return np.sort(last)


def _codes(array: Any) -> Codes:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _codes(array.storage)
    if types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if types.is_struct(kind):
        return row_codes([array.is_valid(), *array.flatten()], len(array))
    if types.is_map(kind):
        return _of_lists(array, row_codes([array.keys, array.items], len(array.keys)))
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_lists(array, _codes(array.values))
    if types.is_floating(kind):
        nan = pa.scalar(float("nan"), kind)
        array = pc.if_else(pc.is_nan(array), nan, array)
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    places = array.dictionary_encode(null_encoding="encode").indices
    found: Codes = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _of_lists(array: Any, elements: Codes) -> Codes:
    if not len(array):
        return np.zeros(0, np.int64)
    offsets = array.offsets.to_numpy().astype(np.int64) * elements.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(elements))]
    texts = pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    return row_codes([array.is_valid(), texts], len(array))
