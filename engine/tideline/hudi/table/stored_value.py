"""Values of a base file as the table's type, in Arrow: widened, repaired, re-nested.

Merging and the Python data source read with it; `tideline.spark.read.conversions` does the same
there.

Source: Hudi's HoodieAvroUtils.rewritePrimaryType, AvroSchemaRepair.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.hudi.table.column_type import is_list_like
from tideline.hudi.table.retyped_number import decimals, number_texts

Leaf = Callable[[pa.Array, pa.DataType], pa.Array]


def converted_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """`array` as `wanted`. Raises ArrowInvalid for a value that has no place in that type."""
    return _converted(array, wanted, _leaf)


def cast_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Incoming values as a table's type, by plain casts: a stored float is read by its digits.

    Raises ArrowInvalid for a value that has no place in that type.
    """
    return _converted(array, wanted, _cast)


def _converted(array: pa.Array, wanted: pa.DataType, leaf: Leaf) -> pa.Array:
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == wanted:
        return array
    if types.is_struct(wanted) and types.is_struct(array.type):
        return _struct(array, wanted, leaf)
    if is_list_like(wanted) and is_list_like(array.type):
        if not types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        items = _converted(array.values, wanted.value_type, leaf)
        list_type = pa.list_(wanted.value_field)
        return pa.ListArray.from_arrays(list_offsets(array), items, type=list_type)
    if types.is_map(wanted) and types.is_map(array.type):
        keys = _converted(array.keys, wanted.key_type, leaf)
        items = _converted(array.items, wanted.item_type, leaf)
        return pa.MapArray.from_arrays(list_offsets(array), keys, items, type=wanted)
    return leaf(array, wanted)


def _struct(array: pa.StructArray, wanted: pa.StructType, leaf: Leaf) -> pa.StructArray:
    names = [item.name for item in array.type]
    folded = {name.casefold(): name for name in reversed(names)}
    children = []
    for item in wanted:
        name = item.name if item.name in names else folded.get(item.name.casefold())
        child = None if name is None else array.field(name)
        children.append(
            pa.nulls(len(array), item.type) if child is None else _converted(child, item.type, leaf)
        )
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())


def list_offsets(array: pa.ListArray) -> pa.Array:
    """Where the lists or maps of an array begin; null where one itself is."""
    if array.null_count == 0:
        return array.offsets
    begins = array.offsets.slice(0, len(array))
    present = pc.if_else(array.is_valid(), begins, pa.scalar(None, begins.type))
    return pa.concat_arrays([present, array.offsets.slice(len(array))])


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    # Finer times than microseconds are cut, whole numbers rounded to what a float can hold.
    is_rounded = types.is_floating(wanted) or types.is_timestamp(wanted)
    return pc.cast(array, wanted, safe=not is_rounded)


def _leaf(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    stored = array.type
    if types.is_float32(stored) and types.is_float64(wanted):
        return array.cast(pa.string()).cast(wanted)
    if types.is_floating(stored) and types.is_string(wanted):
        return number_texts(array)
    if types.is_decimal(wanted) and not types.is_decimal(stored) and not types.is_null(stored):
        return decimals(array, wanted)
    if types.is_timestamp(wanted):
        if wanted.unit == "ms" and wanted.tz and stored == pa.timestamp("us", "UTC"):
            # Mislabelled: the numbers are milliseconds.
            return array.cast(pa.int64()).cast(wanted)
        if types.is_int64(stored):
            return array.cast(wanted)
    # Widening to a floating point type may round, as Hudi's does.
    return pc.cast(array, wanted, safe=not types.is_floating(wanted))
