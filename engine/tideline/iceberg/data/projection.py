"""How the columns of one file become the fields that are wanted, matched by field id.

1. A wanted field that the file has is taken from it, under its name of today, its type promoted.
2. One that the file lacks is the file's partition value when it is an identity partition field,
   else its initial default, else null.
3. Structs, lists and maps are taken apart and matched in the same way within.

Source: Iceberg's specification, "Column Projection", "Schema Evolution", "Default values".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.data.arrow_schema import (
    VARIANT_BYTES,
    arrow_schema,
    arrow_type,
    as_arrow,
    field_id,
    list_array,
    map_array,
    struct_array,
)
from tideline.iceberg.metadata.field_type import (
    CarriedVariant,
    FieldType,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
)


@dataclass(frozen=True, slots=True)
class Projection:
    """The wanted rows of one file; `sources` are the numbers of the file's columns it reads."""

    schema: pa.Schema
    sources: tuple[int, ...]
    _steps: tuple[_Step, ...]

    @classmethod
    def of(
        cls,
        file_schema: pa.Schema,
        wanted: Sequence[NestedField],
        *,
        constants: Mapping[int, Any],
        path: str,
    ) -> Projection:
        """Match `wanted` with a file's columns; `constants` are its identity partition values.

        Raises CorruptTableError for a required field that is missing, UnsupportedTableError for a
        type that cannot become the wanted one.
        """
        matcher = _Matcher(path, constants)
        steps = matcher.steps(list(file_schema), wanted)
        numbers = tuple(sorted({step.source for step in steps if step.source is not None}))
        return cls(arrow_schema(wanted), numbers, steps)

    def rows(self, columns: Mapping[int, pa.Array], count: int) -> pa.RecordBatch:
        """The wanted rows, of the file's columns by number. Raises pyarrow.ArrowInvalid."""
        arrays = [_taken(step, columns, count) for step in self._steps]
        if not arrays:
            return pa.RecordBatch.from_struct_array(
                pa.Array.from_buffers(pa.struct([]), count, [None], children=[])
            )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True)
class _Step:
    """Where a wanted field comes from: column `source`, or `constant` where the file has none."""

    type: pa.DataType
    source: int | None
    constant: pa.Scalar | None = None
    children: tuple[_Step, ...] = ()
    is_same: bool = False


@dataclass(frozen=True, slots=True)
class _Matcher:
    path: str
    constants: Mapping[int, Any]

    def steps(self, found: Sequence[pa.Field], wanted: Iterable[NestedField]) -> tuple[_Step, ...]:
        by_id = {field_id(field): number for number, field in enumerate(found)}
        return tuple(self._field(field, found, by_id.get(field.field_id)) for field in wanted)

    def _field(self, field: NestedField, found: Sequence[pa.Field], source: int | None) -> _Step:
        if source is not None:
            return self._typed(field.type, found[source].type, source, field.name)
        if field.field_id in self.constants:
            value = as_arrow(self.constants[field.field_id], field.type)
        elif field.initial_default is not None:
            value = default_of(field, field.initial_default)
        elif field.required:
            raise CorruptTableError(f"required column {field.name!r} is missing", path=self.path)
        else:
            value = None
        return _Step(arrow_type(field.type), None, value)

    def _typed(self, wanted: FieldType, found: pa.DataType, source: int, name: str) -> _Step:
        target = arrow_type(wanted)
        if target.equals(found, check_metadata=True):
            return _Step(target, source, is_same=True)
        children: tuple[_Step, ...]
        match wanted:
            case CarriedVariant():
                children = self._variant(found, name)
            case StructType() if types.is_struct(found):
                children = self.steps(list(found), wanted.fields)
            case ListType() if types.is_list(found) or types.is_large_list(found):
                children = (self._typed(wanted.element, found.value_type, 0, f"{name}.element"),)
            case MapType() if types.is_map(found):
                children = (
                    self._typed(wanted.key, found.key_type, 0, f"{name}.key"),
                    self._typed(wanted.value, found.item_type, 1, f"{name}.value"),
                )
            case MapType() if _is_list_of_pairs(found):
                key, value = found.value_type
                children = (
                    self._typed(wanted.key, key.type, 0, f"{name}.key"),
                    self._typed(wanted.value, value.type, 1, f"{name}.value"),
                )
            case StructType() | ListType() | MapType():
                raise self._mismatch(name, found, target)
            case _:
                if not _becomes(found, target):
                    raise self._mismatch(name, found, target)
                children = ()
        return _Step(target, source, children=children)

    def _variant(self, found: pa.DataType, name: str) -> tuple[_Step, ...]:
        """Metadata and value by name: they have no ids."""
        is_whole = types.is_struct(found) and found.num_fields == VARIANT_BYTES.num_fields
        numbers = [found.get_field_index(part.name) for part in VARIANT_BYTES] if is_whole else []
        if not is_whole or -1 in numbers:
            raise UnsupportedTableError(
                f"column {name!r} is a variant that is shredded, or stored in another way than as "
                "metadata and value, and is not copied: write its file again without "
                "write.parquet.shred-variants",
                path=self.path,
            )
        return tuple(_Step(pa.binary(), number) for number in numbers)

    def _mismatch(
        self, name: str, found: pa.DataType, wanted: pa.DataType
    ) -> UnsupportedTableError:
        return UnsupportedTableError(
            f"column {name!r} is stored as {found} and cannot be read as {wanted}", path=self.path
        )


def default_of(field: NestedField, value: Any) -> pa.Scalar:
    """A default of a field, a JSON single value (see the specification's Appendix D), as rows have
    it. Raises UnsupportedTableError, CorruptTableError."""
    kind = arrow_type(field.type)
    if types.is_nested(kind):
        raise UnsupportedTableError(f"nested column {field.name!r} has a default that is not null")
    try:
        if field.type == Primitive("uuid"):
            return as_arrow(UUID(value), field.type)
        if types.is_binary(kind) or types.is_fixed_size_binary(kind):
            return pa.scalar(bytes.fromhex(value), kind)
        if types.is_time(kind):
            return pa.scalar(time.fromisoformat(value), kind)
        if isinstance(value, str):
            return pa.scalar(value).cast(kind)
        return pa.scalar(value, kind)
    except (ValueError, TypeError) as error:
        message = f"the default of column {field.name!r} is not of type {field.type}"
        raise CorruptTableError(message, value=value) from error


def _taken(step: _Step, columns: Mapping[int, pa.Array], count: int) -> pa.Array:
    if step.source is None:
        if step.constant is None:
            return pa.nulls(count, step.type)
        return pa.repeat(step.constant, count)
    column = columns[step.source]
    return column if step.is_same else _projected(step, column)


def _projected(step: _Step, column: Any) -> pa.Array:
    kind = step.type
    if types.is_struct(kind):
        parts = {number: column.field(number) for number in range(column.type.num_fields)}
        children = [_taken(child, parts, len(column)) for child in step.children]
        return struct_array(column, children, kind)
    if types.is_list(kind):
        if types.is_large_list(column.type):
            column = column.cast(pa.list_(column.type.value_field))
        values = _taken(step.children[0], {0: column.values}, len(column.values))
        return list_array(column, values, kind)
    if types.is_map(kind):
        pairs = _pairs(column)
        keys, items = (_taken(child, pairs, len(pairs[0])) for child in step.children)
        return map_array(column, keys, items, kind)
    return _promoted(column, kind)


def _is_list_of_pairs(kind: pa.DataType) -> bool:
    """As Avro has maps."""
    return bool(
        types.is_list(kind) and types.is_struct(kind.value_type) and kind.value_type.num_fields == 2
    )


def _pairs(column: Any) -> Mapping[int, pa.Array]:
    if types.is_map(column.type):
        return {0: column.keys, 1: column.items}
    return {0: column.values.field(0), 1: column.values.field(1)}


def _promoted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if types.is_timestamp(column.type) and types.is_timestamp(wanted):
        # The zone is a label: the numbers count from the epoch in UTC with and without it.
        column = column.view(pa.timestamp(column.type.unit, wanted.tz))
        if (column.type.unit, wanted.unit) == ("ns", "us"):
            # Other writers' nanoseconds are cut, as Iceberg's own readers do.
            column = pc.floor_temporal(column, 1, unit="microsecond")
    if types.is_time64(wanted) and types.is_int64(column.type):
        return column.view(wanted)
    return column.cast(wanted)


def _becomes(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether stored values of a type may be read as another; larger never as smaller."""
    if isinstance(found, pa.BaseExtensionType):
        found = found.storage_type
    if types.is_dictionary(found):
        found = found.value_type
    if found.equals(wanted) or types.is_null(found):
        return True
    if types.is_signed_integer(wanted) and types.is_integer(found):
        widest = wanted.bit_width if types.is_signed_integer(found) else wanted.bit_width // 2
        return bool(found.bit_width <= widest)
    if types.is_floating(wanted) and types.is_floating(found):
        return bool(found.bit_width <= wanted.bit_width)
    if types.is_decimal(wanted) and types.is_decimal(found):
        return bool(found.scale == wanted.scale and found.precision <= wanted.precision)
    if types.is_timestamp(wanted):
        is_day = types.is_date32(found) and wanted.tz is None
        return bool(types.is_timestamp(found) or is_day)
    if types.is_time(wanted):
        # ORC has no type for it.
        return bool(types.is_time(found) or types.is_int64(found))
    if types.is_fixed_size_binary(wanted):
        # Nor one of fixed length.
        return bool(types.is_binary(found))
    return _is_bytes(wanted) and _is_bytes(found)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
        or types.is_string_view(kind)
        or types.is_binary_view(kind)
    )
