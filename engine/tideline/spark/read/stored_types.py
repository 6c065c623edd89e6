"""Base files by the types they store, where Spark cannot read those as the table's types.

A table's columns may be widened; files written before keep the narrower type. Spark widens int to
long or double and decimals itself. The rest is read as stored and converted:

1. Columns that cannot ever have been of another type need no look, nor do those that have their
   type since the table was created.
2. Else the schema that each file was written with decides: that of its commit, or, once the commit
   is archived, the footer of one of the commit's files. Files of one commit share their types.
3. Timestamps of milliseconds and those without a zone are always looked up in a footer: some Hudi
   versions labelled them wrongly, milliseconds as microseconds, without a zone as plain numbers.
4. Where the schema has a history, files are read with the names that columns had at their instant.

Source: Spark's ParquetVectorUpdaterFactory; Hudi's HoodieAvroUtils.rewritePrimaryType,
AvroSchemaRepair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from tideline.errors import CorruptTableError, ObjectNotFoundError, TidelineError
from tideline.formats.parquet_footer import read_schema
from tideline.hudi.table.avro_schema import avro_to_arrow
from tideline.hudi.table.column_type import is_list_like, stored_type
from tideline.hudi.table.file_group import BaseFile
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history import SchemaHistory
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.local.regular_file import native_file

_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Files to read with the columns of `schema`, which has the table's order and their names."""

    schema: pa.Schema
    files: tuple[BaseFile, ...]


def group_by_stored_types(
    table: HoodieTable,
    timeline: ActiveTimeline,
    schema: pa.Schema,
    files: Sequence[BaseFile],
    history: SchemaHistory | None = None,
) -> tuple[StoredFiles, ...]:
    """The files in groups that can each be read as one schema; one group is the usual case.

    Raises CorruptTableError for a base file that is missing or no Parquet file.
    """
    if history is not None:
        return _group_by_names(table, schema, files, history)
    labelled = [leaf for leaf in leaf_types(schema) if _may_be_mislabelled(leaf[1])]
    if not files or not (labelled or _may_have_widened(table, schema)):
        return (StoredFiles(schema, tuple(files)),) if files else ()

    def read_as(file: BaseFile) -> pa.Schema:
        from_commit = None if labelled else _commit_schema(table, timeline, file.instant)
        return readable_schema(from_commit or _footer_schema(table, file), schema)

    return _groups(files, read_as)


def _group_by_names(
    table: HoodieTable,
    schema: pa.Schema,
    files: Sequence[BaseFile],
    history: SchemaHistory,
) -> tuple[StoredFiles, ...]:
    """The same by the names, and the types, that columns had at the instant of each file."""

    def read_as(file: BaseFile) -> pa.Schema:
        names = history.names_at(file.instant)
        wanted = schema if names is None else names.as_stored(schema)
        return readable_schema(_footer_schema(table, file), wanted)

    return _groups(files, read_as)


def _groups(
    files: Sequence[BaseFile], read_as: Callable[[BaseFile], pa.Schema]
) -> tuple[StoredFiles, ...]:
    """The files by the schema to read them as, which is called for one file of each instant."""
    by_instant: dict[InstantTime, list[BaseFile]] = {}
    for file in files:
        by_instant.setdefault(file.instant, []).append(file)
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        schemas = list(pool.map(read_as, [members[0] for members in by_instant.values()]))
    groups: dict[pa.Schema, list[BaseFile]] = {}
    for schema, members in zip(schemas, by_instant.values(), strict=True):
        groups.setdefault(schema, []).extend(members)
    return tuple(StoredFiles(schema, tuple(members)) for schema, members in groups.items())


def readable_schema(stored: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """`wanted` with the stored type of every column that Spark cannot read as the wanted one."""
    return pa.schema(list(_readable_fields(stored, wanted)))


def leaf_types(
    fields: Iterable[pa.Field], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Every column that is no container, by its path in lower case."""
    for item in fields:
        yield from _leaves_of(item.type, (*path, item.name.casefold()))


def _leaves_of(
    data_type: pa.DataType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    if types.is_struct(data_type):
        yield from leaf_types(data_type, path)
    elif is_list_like(data_type):
        yield from _leaves_of(data_type.value_type, (*path, "element"))
    elif types.is_map(data_type):
        yield from _leaves_of(data_type.item_type, (*path, "value"))
    else:
        yield path, data_type


def _may_have_widened(table: HoodieTable, schema: pa.Schema) -> bool:
    """Whether a column may once have been of a type that Spark does not widen to today's."""
    created: dict[tuple[str, ...], pa.DataType] = {}
    if table.config.create_schema:
        try:
            created = dict(leaf_types(avro_to_arrow(table.config.create_schema)))
        except TidelineError:
            # A schema that cannot be read proves nothing.
            created = {}
    return any(
        created.get(path) != data_type
        for path, data_type in leaf_types(schema)
        if any(matches(data_type) for matches in _WIDE)
    )


def _may_be_mislabelled(data_type: pa.DataType) -> bool:
    return types.is_timestamp(data_type) and (data_type.unit == "ms" or data_type.tz is None)


def _commit_schema(
    table: HoodieTable, timeline: ActiveTimeline, time: InstantTime
) -> pa.Schema | None:
    instant = timeline.of(*COMMIT_ACTIONS).completed().find(time)
    if instant is None:
        return None
    schema_json = table.commits.read(instant).schema_json
    return avro_to_arrow(schema_json) if schema_json else None


def _footer_schema(table: HoodieTable, file: BaseFile) -> pa.Schema:
    try:
        native = native_file(table.store, file.path)
        if native is not None:
            return read_schema(native, path=file.path)
        with table.store.open_reader(file.path) as reader:
            return read_schema(reader, path=file.path)
    except (ObjectNotFoundError, FileNotFoundError) as error:
        raise CorruptTableError(
            "base file is missing", table=table.uri, instant=file.instant, path=file.path
        ) from error
    except pa.ArrowInvalid as error:
        raise CorruptTableError(
            "base file is not a parquet file", table=table.uri, instant=file.instant, path=file.path
        ) from error


def _readable_fields(
    stored: pa.Schema | pa.StructType, wanted: pa.Schema | pa.StructType
) -> Iterator[pa.Field]:
    exact = {item.name: item.type for item in stored}
    folded = {item.name.casefold(): item.type for item in stored}
    for item in wanted:
        found = exact.get(item.name, folded.get(item.name.casefold()))
        yield item if found is None else item.with_type(_readable(found, item.type))


def _readable(stored: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if types.is_struct(wanted) and types.is_struct(stored):
        return pa.struct(list(_readable_fields(stored, wanted)))
    if is_list_like(wanted) and is_list_like(stored):
        item = wanted.value_field
        return pa.list_(item.with_type(_readable(stored.value_type, item.type)))
    if types.is_map(wanted) and types.is_map(stored):
        item = wanted.item_field
        value = item.with_type(_readable(stored.item_type, item.type))
        return pa.map_(wanted.key_type, value)
    if types.is_nested(wanted) or types.is_nested(stored):
        return wanted
    plain = stored_type(stored, "", keep_millis=True)
    return wanted if _spark_reads(plain, wanted) else plain


def _spark_reads(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark's Parquet reader yields what a table of type `wanted` means."""
    if stored == wanted or types.is_null(stored):
        return True
    if types.is_timestamp(stored) and types.is_timestamp(wanted):
        return not (wanted.unit == "ms" and wanted.tz and stored == pa.timestamp("us", "UTC"))
    if types.is_decimal(stored) and types.is_decimal(wanted):
        whole = wanted.precision - wanted.scale - (stored.precision - stored.scale)
        return bool(whole >= 0 and wanted.scale >= stored.scale)
    if types.is_int32(stored):
        return wanted in (pa.int64(), pa.float64())
    return _is_bytes(stored) and _is_bytes(wanted)


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(
        types.is_string(data_type)
        or types.is_binary(data_type)
        or types.is_fixed_size_binary(data_type)
    )


# What Hudi lets other types become, but for what Spark's reader widens to on its own.
_WIDE = (
    types.is_float32,
    types.is_float64,
    types.is_string,
    types.is_decimal,
    types.is_date32,
)
