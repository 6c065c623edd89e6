"""The Arrow types a table stores columns as, and which of them widen to which.

Input comes in more types than Hudi tables know: they are brought to the stored type nearest to
them before anything is compared. Timestamps are microseconds; those with a zone are UTC.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types

from tideline.errors import InvalidDataError

ELEMENT = "element"
KEY = "key"
VALUE = "value"

_WIDENS_TO = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in stored types. Raises InvalidDataError naming a column whose type has none."""
    return pa.schema([stored_field(column, column.name) for column in schema])


def stored_field(column: pa.Field, name: str) -> pa.Field:
    """One column in its stored type; `name` is its dotted name, for the message."""
    return pa.field(column.name, stored_type(column.type, name), column.nullable)


def stored_type(data_type: pa.DataType, name: str, *, keep_millis: bool = False) -> pa.DataType:
    """The type a column of `data_type` is stored as. Raises InvalidDataError when there is none.

    `keep_millis` leaves millisecond timestamps alone: old tables have them, new columns do not.
    """
    if types.is_dictionary(data_type):
        return stored_type(data_type.value_type, name, keep_millis=keep_millis)
    if types.is_struct(data_type) and data_type.num_fields:
        return pa.struct(
            [
                pa.field(
                    child.name,
                    stored_type(child.type, f"{name}.{child.name}", keep_millis=keep_millis),
                    child.nullable,
                )
                for child in data_type
            ]
        )
    if is_list_like(data_type):
        item = data_type.value_field
        element = stored_type(item.type, f"{name}.{ELEMENT}", keep_millis=keep_millis)
        return pa.list_(pa.field(ELEMENT, element, item.nullable))
    if types.is_map(data_type):
        key = stored_type(data_type.key_type, f"{name}.{KEY}")
        if key != pa.string():
            raise InvalidDataError(
                f"column {name}: the keys of a map must be strings, not {key}", value=name
            )
        value = stored_type(data_type.item_type, f"{name}.{VALUE}", keep_millis=keep_millis)
        return pa.map_(pa.string(), pa.field(VALUE, value, data_type.item_field.nullable))
    return _stored_scalar(data_type, name, keep_millis)


def widens_to(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether every value of the stored type `narrow` may be stored as the different type `wide`.

    int -> long -> float -> double as Hudi and Avro have it (long to float may round).
    """
    return wide in _WIDENS_TO.get(narrow, ())


def fits_in(incoming: pa.DataType, stored: pa.DataType) -> bool:
    """Whether values of `incoming` are promoted to the column's different type `stored`.

    All that widens, and what changes only the form of the value: a time to one of a finer unit,
    a decimal with no more digits on either side of the point, fixed to variable bytes.
    """
    if types.is_null(incoming) or widens_to(incoming, stored):
        return True
    if types.is_timestamp(incoming) and types.is_timestamp(stored):
        is_finer = (incoming.unit, stored.unit) in (("ms", "us"), ("ms", "ns"), ("us", "ns"))
        return is_finer and incoming.tz == stored.tz
    if types.is_decimal(incoming) and types.is_decimal(stored):
        whole = stored.precision - stored.scale - (incoming.precision - incoming.scale)
        return bool(stored.scale >= incoming.scale and whole >= 0)
    return bool(types.is_fixed_size_binary(incoming) and stored == pa.binary())


def is_list_like(data_type: pa.DataType) -> bool:
    """Whether it is any of Arrow's list types."""
    return bool(
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
        or types.is_list_view(data_type)
        or types.is_large_list_view(data_type)
    )


def _stored_scalar(data_type: pa.DataType, name: str, keep_millis: bool) -> pa.DataType:
    for matches, stored in _SCALARS:
        if matches(data_type):
            return stored
    if types.is_timestamp(data_type):
        unit = "ms" if keep_millis and data_type.unit == "ms" else "us"
        return pa.timestamp(unit, tz="UTC" if data_type.tz else None)
    if types.is_time(data_type):
        return data_type if data_type == pa.time32("ms") else pa.time64("us")
    if types.is_decimal(data_type) and data_type.precision <= 38 and data_type.scale >= 0:
        return pa.decimal128(data_type.precision, data_type.scale)
    if types.is_fixed_size_binary(data_type) and not types.is_decimal(data_type):
        return data_type
    if types.is_null(data_type):
        return data_type
    raise InvalidDataError(
        f"column {name}: a table cannot store values of type {data_type}", value=name
    )


_SCALARS = (
    (types.is_boolean, pa.bool_()),
    (types.is_int8, pa.int32()),
    (types.is_int16, pa.int32()),
    (types.is_int32, pa.int32()),
    (types.is_uint8, pa.int32()),
    (types.is_uint16, pa.int32()),
    (types.is_int64, pa.int64()),
    (types.is_uint32, pa.int64()),
    (types.is_float32, pa.float32()),
    (types.is_float64, pa.float64()),
    (types.is_string, pa.string()),
    (types.is_large_string, pa.string()),
    (types.is_string_view, pa.string()),
    (types.is_binary, pa.binary()),
    (types.is_large_binary, pa.binary()),
    (types.is_binary_view, pa.binary()),
    (types.is_date, pa.date32()),
)
