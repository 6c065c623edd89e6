"""Which name each of the table's columns has in a stored file, found by id. Pure.

A file has the names of the version in force at its instant. For a column of the version it is read
as, by its id:

1. The file's version has the id: the column has its name there, regardless of later renames.
2. It does not, and has another column of that name: the file has no such column. It was dropped
   since and added again, and its old values must not come back.
3. It has neither: by name, for what a writer without schema evolution added in between.

Fields of structs are found likewise, also inside lists and maps.
Source: Hudi's InternalSchemaMerger, InternalSchemaUtils.collectRenameCols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from tideline.hudi.table.column_type import is_list_like
from tideline.hudi.table.internal_schema import (
    InternalList,
    InternalMap,
    InternalSchema,
    InternalStruct,
    InternalType,
)
from tideline.hudi.table.stored_value import list_offsets

_ABSENT = "$absent"
"""Ends a name that no file has: Avro, and so Hudi, allows no $ in names."""


@dataclass(frozen=True, slots=True)
class StoredName:
    """A column's name in a file, None when the file has no such column.

    `inner` are the names of the fields below it where any of them differs.
    """

    name: str | None
    inner: StoredNames | None = None


@dataclass(frozen=True, slots=True)
class StoredNames:
    """The columns, or fields of one struct, by the names that rows are read with."""

    fields: Mapping[str, StoredName]

    def of(self, name: str) -> StoredName:
        """What a column is in the file; one that no version knows keeps its own name."""
        return self.fields.get(name) or StoredName(name)

    def stored(self, names: Iterable[str]) -> list[str]:
        """The names in the file of those of the columns that it has."""
        sources = (self.of(name).name for name in names)
        return [name for name in sources if name is not None]

    def as_stored(self, schema: pa.Schema) -> pa.Schema:
        """The schema with the file's names, position by position, for readers that match by name.

        A column that the file has not gets a name that no file has.
        """
        return pa.schema([self._field(item) for item in schema])

    def renamed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as stored under the names to read them with; what these have not is left out.

        Columns that no version knows come as they are.
        """
        arrays, names = [], []
        known = {source.name: name for name, source in self.fields.items() if source.name}
        for stored, column in zip(rows.schema.names, rows.columns, strict=True):
            name = known.get(stored)
            if name is None and stored in self.fields:
                continue
            source = self.of(stored if name is None else name)
            arrays.append(renamed_array(column, source.inner))
            names.append(stored if name is None else name)
        if not arrays:
            return rows
        return pa.RecordBatch.from_arrays(arrays, names)

    def _field(self, item: pa.Field) -> pa.Field:
        source = self.of(item.name)
        name = f"{item.name}{_ABSENT}" if source.name is None else source.name
        kind = item.type if source.inner is None else source.inner._type(item.type)
        return item.with_name(name).with_type(kind)

    def _type(self, kind: pa.DataType) -> pa.DataType:
        if types.is_struct(kind):
            return pa.struct([self._field(child) for child in kind])
        if is_list_like(kind):
            item = kind.value_field
            return pa.list_(item.with_type(self._type(item.type)))
        if types.is_map(kind):
            item = kind.item_field
            return pa.map_(kind.key_type, item.with_type(self._type(item.type)))
        return kind


def names_in_file(file: InternalSchema, read_as: InternalSchema) -> StoredNames | None:
    """The names that columns of `read_as` have in a file of version `file`; None if their own."""
    return _struct_names(file.root, read_as.root)


def renamed_array(array: pa.Array, names: StoredNames | None) -> pa.Array:
    """A column as stored, its fields under the names to read them with."""
    if names is None:
        return array
    kind = array.type
    if types.is_struct(kind):
        return _renamed_struct(array, names)
    if is_list_like(kind):
        items = renamed_array(array.values, names)
        list_type = pa.list_(kind.value_field.with_type(items.type))
        return pa.ListArray.from_arrays(list_offsets(array), items, type=list_type)
    if types.is_map(kind):
        items = renamed_array(array.items, names)
        map_type = pa.map_(kind.key_type, kind.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(list_offsets(array), array.keys, items, type=map_type)
    return array


def _renamed_struct(array: pa.StructArray, names: StoredNames) -> pa.StructArray:
    known = {source.name: name for name, source in names.fields.items() if source.name}
    children, fields = [], []
    for child in array.type:
        name = known.get(child.name)
        if name is None and child.name in names.fields:
            continue
        inner = names.of(child.name if name is None else name).inner
        values = renamed_array(array.field(child.name), inner)
        children.append(values)
        fields.append(child.with_name(name or child.name).with_type(values.type))
    if not children:
        # An array without children has no length.
        children, fields = [pa.nulls(len(array))], [pa.field(_ABSENT, pa.null())]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def _struct_names(file: InternalStruct, read_as: InternalStruct) -> StoredNames | None:
    by_id = {item.id: item for item in file.fields}
    taken = {item.name.casefold() for item in file.fields}
    found: dict[str, StoredName] = {}
    for item in read_as.fields:
        stored = by_id.get(item.id)
        if stored is not None:
            found[item.name] = StoredName(stored.name, _inner(stored.type, item.type))
        elif item.name.casefold() in taken:
            found[item.name] = StoredName(None)
        else:
            found[item.name] = StoredName(item.name)
    if all(source == StoredName(name) for name, source in found.items()):
        return None
    return StoredNames(found)


def _inner(file: InternalType, read_as: InternalType) -> StoredNames | None:
    if isinstance(file, InternalStruct) and isinstance(read_as, InternalStruct):
        return _struct_names(file, read_as)
    if isinstance(file, InternalList) and isinstance(read_as, InternalList):
        return _inner(file.element, read_as.element)
    if isinstance(file, InternalMap) and isinstance(read_as, InternalMap):
        return _inner(file.value, read_as.value)
    return None
