"""Numbers that stand for values: equal ones have the same number, whatever their type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.hudi.keys.virtual_key import column_at
from tideline.in_process.arrangement import column_ranks

Numbers = npt.NDArray[np.int64]


def value_codes(column: pa.ChunkedArray | pa.Array) -> Numbers:
    """A number for every value; null has one as well, and NaN is equal to NaN."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if types.is_nested(array.type):
        array = _as_text(array)
    encoded = array.dictionary_encode()
    codes: Numbers = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64)
    return codes


def row_codes(rows: pa.Table, names: list[str]) -> Numbers:
    """A number for every row, by these columns."""
    found = np.zeros(rows.num_rows, np.int64)
    for name in names:
        codes = value_codes(rows.column(name)) + 1
        _, found = np.unique(found * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
        found = found.astype(np.int64)
    return found


def ordering_ranks(rows: pa.Table, names: tuple[str, ...]) -> Numbers:
    """The rank of every row by the ordering columns, the first one first; -1 where one is null.
    Equal values have the same rank."""
    found = np.zeros(rows.num_rows, np.int64)
    if not names or not rows.num_rows:
        return found
    batch = rows.combine_chunks().to_batches()[0]
    has_none = np.zeros(rows.num_rows, np.bool_)
    for name in names:
        ranks = column_ranks(column_at(batch, name))
        has_none |= ranks < 0
        _, found = np.unique(found * (int(ranks.max()) + 2) + ranks + 1, return_inverse=True)
        found = found.astype(np.int64)
    found[has_none] = -1
    return found


def _as_text(array: pa.Array) -> pa.Array:
    """Nested values as text: Arrow does not compare them."""
    if types.is_struct(array.type):
        fields = [array.type.field(number) for number in range(array.type.num_fields)]
        codes = [value_codes(pc.struct_field(array, item.name)) for item in fields]
        texts = [pa.array(item).cast(pa.string()) for item in codes]
        joined = pc.binary_join_element_wise(*texts, ",") if texts else pa.nulls(len(array))
        return pc.if_else(array.is_valid(), joined, pa.scalar(None, pa.string()))
    return pa.array([None if value is None else repr(value) for value in array.to_pylist()])
