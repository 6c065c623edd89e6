"""Parquet source files: schemas from their footers, and times in nanoseconds.

Spark reads nanoseconds (which pandas writes) only as whole numbers; here they become timestamps,
rounded down to microseconds. Columns of nulls alone, which it reads as whole numbers, have no type
of their own: they are left out until they have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyarrow import types
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import ObjectNotFoundError, UnsupportedTableError
from tideline.formats.parquet_footer import read_schema
from tideline.spark.quoting import column_named, quoted
from tideline.storage.object_store import ObjectStore

_READERS = 8
_NANOS_AS_LONG = "spark.sql.legacy.parquet.nanosAsLong"


def read_parquet_schemas(
    store: ObjectStore, paths: Sequence[str]
) -> tuple[dict[str, pa.Schema], dict[str, str]]:
    """Schemas by path, and reasons by path for the files without a readable footer.

    Raises StorageUnavailableError.
    """
    with ThreadPoolExecutor(min(_READERS, len(paths))) as pool:
        found = list(pool.map(lambda path: _read_schema(store, path), paths))
    schemas, unreadable = {}, {}
    for path, schema in zip(paths, found, strict=True):
        if isinstance(schema, str):
            unreadable[path] = schema
        else:
            schemas[path] = schema
    return schemas, unreadable


def allow_nanos(session: SparkSession, schema: pa.Schema) -> None:
    """Let the session read files of this schema, should they have nanoseconds."""
    if any(_is_nanos(item.type) for item in schema):
        session.conf.set(_NANOS_AS_LONG, "true")


def nanos_to_timestamps(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """The frame with its nanosecond columns, as `schema` has them, made timestamps."""
    zoned = {item.name: item.type.tz is not None for item in schema if _is_nanos(item.type)}
    if not zoned:
        return frame
    columns = [
        _from_nanos(name, is_zoned=zoned[name]) if name in zoned else column_named(name)
        for name in frame.columns
    ]
    return frame.select(*columns)


def without_untyped(
    frame: DataFrame, schema: pa.Schema, known: Mapping[str, T.DataType]
) -> DataFrame:
    """The frame without columns, and fields at any depth, that have no type in `schema`, the
    file's, nor among the `known` (by name in lower case)."""
    kinds = {item.name: item.type for item in schema if _holds_null(item.type)}
    if not kinds:
        return frame
    columns = []
    for name in frame.columns:
        column, wanted = column_named(name), known.get(name.lower())
        if name not in kinds:
            columns.append(column)
        elif _has_type(kinds[name], wanted):
            columns.append(_typed(column, kinds[name], wanted).alias(name))
    return frame.select(*columns)


def _has_type(kind: pa.DataType, known: T.DataType | None) -> bool:
    if types.is_null(kind):
        return known is not None
    if not _holds_null(kind):
        return True
    return any(_has_type(part.type, _known_part(known, part.name)) for part in _parts(kind))


def _typed(column: Column, kind: pa.DataType, known: T.DataType | None) -> Column:
    """The column without its parts that have no type."""
    if types.is_null(kind):
        assert known is not None, "_has_type says so"
        return F.lit(None).cast(known)
    if not _holds_null(kind):
        return column
    if types.is_struct(kind):
        fields = [
            _typed(column.getField(part.name), part.type, _known_part(known, part.name)).alias(
                part.name
            )
            for part in kind
            if _has_type(part.type, _known_part(known, part.name))
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    (item,) = _parts(kind)
    wanted = _known_part(known, item.name)
    if types.is_map(kind):
        return F.transform_values(column, lambda _, value: _typed(value, item.type, wanted))
    return F.transform(column, lambda value: _typed(value, item.type, wanted))


def _parts(kind: pa.DataType) -> list[pa.Field]:
    """The fields of a struct, the items of a list, the values of a map."""
    if types.is_map(kind):
        return [kind.item_field]
    return [kind.field(number) for number in range(kind.num_fields)]


def _known_part(known: T.DataType | None, name: str) -> T.DataType | None:
    match known:
        case T.ArrayType():
            return known.elementType
        case T.MapType():
            return known.valueType
        case T.StructType():
            return {item.name.lower(): item.dataType for item in known}.get(name.lower())
    return None


def _from_nanos(name: str, *, is_zoned: bool) -> Column:
    micros = F.expr(f"({quoted(name)} - pmod({quoted(name)}, 1000)) div 1000")
    kind = "timestamp" if is_zoned else "timestamp_ntz"
    return F.timestamp_micros(micros).cast(kind).alias(name)


def _read_schema(store: ObjectStore, path: str) -> pa.Schema | str:
    try:
        with store.open_reader(path) as reader:
            schema = read_schema(reader, path=path).remove_metadata()
    except ObjectNotFoundError:
        return "the file has gone"
    except UnsupportedTableError as error:
        return error.message
    except (pa.ArrowException, OSError) as error:
        return " ".join(str(error).split())
    nested = next((item.name for item in schema if _holds_nanos(item.type)), None)
    if nested is not None:
        return f"column {nested} holds times in nanoseconds inside a list, map or struct"
    return schema


def _holds_null(kind: pa.DataType) -> bool:
    """Whether a type, or a part of it, is that of nulls alone."""
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return types.is_null(kind) or any(_holds_null(part) for part in parts)


def _is_nanos(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) and kind.unit == "ns")


def _holds_nanos(kind: pa.DataType) -> bool:
    """Whether a nested type has nanoseconds somewhere in it."""
    parts = [kind.field(number).type for number in range(kind.num_fields)]
    return any(_is_nanos(part) or _holds_nanos(part) for part in parts)
