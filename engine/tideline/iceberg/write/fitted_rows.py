"""Given rows in the columns of a table: by name, each value as the table's type has it or refused.

1. A column that rows lack is its default (`write-default`), else null where it is optional.
2. A column that the table lacks is refused: columns are added to the schema first.
3. A value of a related type is taken where nothing of it is lost, such as a number that fits.

Structs, lists and maps are taken apart and fitted in the same way within.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import InvalidDataError
from tideline.iceberg.data.arrow_schema import (
    VARIANT_BYTES,
    arrow_schema,
    arrow_type,
    list_array,
    map_array,
    struct_array,
)
from tideline.iceberg.data.projection import default_of
from tideline.iceberg.metadata.field_type import (
    CarriedVariant,
    FieldType,
    ListType,
    MapType,
    NestedField,
    StructType,
    kind_word,
)
from tideline.parquet.hidden_nulls import without_validity

_DIGITS_OF_A_LONG = 20
_MICROS_A_DAY = 86_400 * 10**6


def fitted_rows(batch: pa.RecordBatch, fields: Sequence[NestedField]) -> pa.RecordBatch:
    """The rows in these columns. Raises InvalidDataError naming a column that does not fit."""
    columns = _members(batch.schema.names, batch.columns, fields, batch.num_rows, "", 0)
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields))


def fitted_streams(
    streams: Iterable[pa.RecordBatchReader], fields: Sequence[NestedField]
) -> Iterator[pa.RecordBatch]:
    """All rows of some streams in these columns; the columns of each are looked at before its rows.

    Raises InvalidDataError.
    """
    for rows in streams:
        none = [pa.nulls(0, field.type) for field in rows.schema]
        fitted_rows(pa.RecordBatch.from_arrays(none, schema=rows.schema), fields)
        for batch in rows:
            if batch.num_rows:
                yield fitted_rows(batch, fields)


def _members(
    names: Sequence[str],
    columns: Sequence[pa.Array],
    fields: Iterable[NestedField],
    count: int,
    prefix: str,
    absent: int,
) -> list[pa.Array]:
    """A column for each field; `absent` are the rows whose struct is null."""
    wanted = list(fields)
    known = {field.name for field in wanted}
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidDataError("rows have a column twice", value=f"{prefix}{twice[0]}")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidDataError(
            "the table has no such column: add it to the table's schema first, or leave it out",
            value=", ".join(f"{prefix}{name}" for name in unknown),
        )
    found = dict(zip(names, columns, strict=True))
    return [_member(found.get(field.name), field, count, prefix, absent) for field in wanted]


def _member(column: Any, field: NestedField, count: int, prefix: str, absent: int) -> pa.Array:
    name = f"{prefix}{field.name}"
    if column is None:
        if field.write_default is not None:
            return pa.repeat(default_of(field, field.write_default), count)
        if field.required:
            raise InvalidDataError("rows lack a required column", value=name)
        return pa.nulls(count, arrow_type(field.type))
    fitted = _typed(column, field.type, name)
    if field.required and fitted.null_count > absent:
        raise InvalidDataError("a required column has nulls", value=name)
    return without_validity(fitted) if field.required and fitted.null_count else fitted


def _typed(column: Any, kind: FieldType, name: str) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    found, wanted = column.type, arrow_type(kind)
    if types.is_null(found):
        return pa.nulls(len(column), wanted)
    match kind:
        case CarriedVariant():
            return _variants(column, name)
        case StructType() if types.is_struct(found):
            names = [found.field(number).name for number in range(found.num_fields)]
            absent = column.null_count
            members = _members(
                names, column.flatten(), kind.fields, len(column), f"{name}.", absent
            )
            return struct_array(column, members, wanted)
        case ListType() if _is_list(found):
            if not types.is_list(found):
                column = column.cast(pa.list_(found.value_field))
            column = _without_hidden(column, "values")
            element = _typed(column.values, kind.element, f"{name}.element")
            fitted = list_array(column, element, wanted)
            if kind.element_required and fitted.flatten().null_count:
                raise InvalidDataError("a required element is null", value=name)
            return fitted
        case MapType() if types.is_map(found):
            column = _without_hidden(column, "keys")
            keys = _typed(column.keys, kind.key, f"{name}.key")
            items = _typed(column.items, kind.value, f"{name}.value")
            if kind.value_required and items.null_count:
                raise InvalidDataError("a required value of a map is null", value=name)
            return map_array(column, keys, items, wanted)
        case StructType() | ListType() | MapType():
            raise _misfit(name, found, kind)
    return _value(column, wanted, kind, name)


def _variants(column: Any, name: str) -> pa.Array:
    """Variants as Spark has them in Arrow: their parts by name, which are not looked into."""
    parts = [part.name for part in VARIANT_BYTES]
    found = column.type
    is_variant = types.is_struct(found) and sorted(field.name for field in found) == parts
    if not is_variant or not all(types.is_binary(field.type) for field in found):
        raise _misfit(name, found, CarriedVariant())
    members = [pc.struct_field(column, part) for part in parts]
    if any(member.null_count > column.null_count for member in members):
        raise InvalidDataError("a variant lacks its metadata or its value", value=name)
    return struct_array(column, [without_validity(part) for part in members], VARIANT_BYTES)


def _without_hidden(column: Any, inside: str) -> pa.Array:
    """A list or map column without what only other slices of it, or its nulls, have inside."""
    offsets, count = column.offsets, len(getattr(column, inside))
    is_whole = offsets[0].as_py() == 0 and offsets[-1].as_py() == count
    return column if is_whole and not column.null_count else column.take(np.arange(len(column)))


def _value(column: Any, wanted: pa.DataType, kind: FieldType, name: str) -> pa.Array:
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not column.type.equals(wanted) and not _is_kin(column.type, wanted):
        raise _misfit(name, column.type, kind)
    try:
        if types.is_integer(column.type) and types.is_decimal(wanted):
            # Room for whatever the type of the given numbers may hold: the next cast looks at each.
            column = column.cast(pa.decimal256(_DIGITS_OF_A_LONG + wanted.scale, wanted.scale))
        fitted = column.cast(wanted)
        if types.is_string(wanted):
            # Readers of Parquet do not look whether text is UTF-8.
            fitted.validate(full=True)
        if types.is_time(wanted):
            _refuse_other_days(fitted)
        return fitted
    except pa.ArrowException as error:
        message = f"values of the column {name} do not fit {kind}: {error}"
        raise InvalidDataError(message, value=name) from error


def _refuse_other_days(times: pa.Array) -> None:
    """Raises ArrowInvalid for a time of day that is before or after the day."""
    ends = pc.min_max(times.view(pa.int64()))
    if ends["min"].is_valid and (ends["min"].as_py() < 0 or ends["max"].as_py() >= _MICROS_A_DAY):
        raise pa.ArrowInvalid("a time of day is from 00:00:00 to 23:59:59.999999")


def _misfit(name: str, found: pa.DataType, wanted: FieldType) -> InvalidDataError:
    message = f"the column {name} is {kind_word(wanted)} in the table, not {found}"
    return InvalidDataError(message, value=name)


def _is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_kin(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of the one type may be values of the other; the cast looks at each."""
    if types.is_integer(found):
        is_number = types.is_integer(wanted) or types.is_floating(wanted)
        return bool(is_number or types.is_decimal(wanted))
    if types.is_floating(found):
        return bool(types.is_floating(wanted) and found.bit_width <= wanted.bit_width)
    if types.is_decimal(found):
        return bool(types.is_decimal(wanted))
    if types.is_timestamp(found):
        return bool(types.is_timestamp(wanted) and (found.tz is None) == (wanted.tz is None))
    if types.is_date(found):
        return bool(types.is_date(wanted))
    if types.is_time(found):
        return bool(types.is_time(wanted))
    if _is_text(found):
        return _is_text(wanted)
    return _is_bytes(found) and (_is_bytes(wanted) or types.is_fixed_size_binary(wanted))


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )
