"""The incoming rows of one write, made ready: target schema, keys, partition path, arrival order.

The prepared frame has the columns below in addition to the table's user columns, which are cast and
in the table's order. Nothing is computed until an action runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from tideline.bounded.read_limits import too_many_columns
from tideline.errors import InvalidDataError
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY
from tideline.hudi.keys.key_generator import KeyGenerator, key_columns
from tideline.hudi.keys.key_text import TWO_TEXTS
from tideline.hudi.keys.partition_path import check_partition_paths
from tideline.hudi.table.column_type import fits_in, stored_type
from tideline.hudi.table.meta_column import is_meta_column
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import EvolvedSchema, evolve, without_meta_fields
from tideline.hudi.write.batch_rules import (
    ARRIVAL,
    DELETED_FLAG,
    UNREADABLE_TIME,
    require_stored_keys,
    require_typed,
)
from tideline.hudi.write.config import DeleteMarker
from tideline.spark.quoting import column_named
from tideline.spark.write.column_cast import cast_by_name
from tideline.spark.write.keys import (
    column_of,
    field_type,
    partition_path_column,
    record_key_column,
    with_two_texts,
)
from tideline.spark.write.routing_sources import RoutingSources
from tideline.wording import counted

PARTITION_PATH = "_hoodie_partition_path"


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """Rows ready for tagging, and the schema they will be written with.

    `key_fields` are the record key's columns and the partition path's: all that a message may
    show of a row. `two_texts` says which rows have a value there that makes no key.
    """

    rows: DataFrame
    schema: EvolvedSchema
    has_deletes: bool
    sources: RoutingSources = field(default_factory=RoutingSources)
    key_fields: tuple[str, ...] = ()
    two_texts: Column | None = None


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What one pass over the keys finds: rows of each partition; none of them has a bad key."""

    rows_per_partition: Mapping[str, int]

    @property
    def rows(self) -> int:
        return sum(self.rows_per_partition.values())


def prepare_batch(
    frame: DataFrame,
    keys: KeyGenerator,
    table_schema: pa.Schema | None,
    *,
    ordering: tuple[str, ...] = (),
    deletes_only: bool = False,
    missing: MissingColumns = MissingColumns.REFUSED,
    delete_marker: DeleteMarker | None = None,
) -> PreparedBatch:
    """Bring a caller's frame into the table's shape.

    Meta columns in the input are ignored. Keys are made from values as the table stores them. Rows
    delete by `_hoodie_is_deleted` or by `delete_marker`. `deletes_only` (operation delete) reads
    the key and partition columns and nothing else. Raises InvalidDataError when the schemas clash,
    ConfigError when a key field is missing.
    """
    problem = too_many_columns(len(frame.columns))
    if problem is not None:
        raise InvalidDataError(problem)
    supplied = frame.drop(*[name for name in frame.columns if is_meta_column(name)])
    flag = F.lit(True) if deletes_only else _delete_flag(supplied, delete_marker)
    has_flag = table_schema is not None and DELETED_FLAG in table_schema.names
    if has_flag and DELETED_FLAG not in supplied.columns:
        supplied = supplied.withColumn(DELETED_FLAG, F.lit(False))
    user = supplied.drop(ARRIVAL) if has_flag else supplied.drop(ARRIVAL, DELETED_FLAG)
    if deletes_only:
        user = user.select(*map(column_named, key_columns(user.columns, keys)))
    incoming = arrow_schema(user.schema)
    if deletes_only and table_schema is not None:
        evolved = EvolvedSchema(table_schema)
        typed = _key_values(user, incoming, table_schema)
    else:
        evolved = evolve(table_schema, incoming, missing=missing)
        require_typed(evolved.change.untyped, keys, ordering)
        typed = _cast_columns(user, evolved.schema)
    if flag is not None:
        typed.append(flag.alias(IS_DELETE))
    if ARRIVAL in supplied.columns:
        typed.append(F.col(ARRIVAL).cast("bigint").alias(ARRIVAL))
    shaped = supplied.select(*typed)
    columns = _routing_columns(shaped, keys)
    sources = RoutingSources()
    if deletes_only:
        columns += [_null(item).alias(item.name) for item in evolved.schema]
    else:
        columns += [column_named(item.name) for item in evolved.schema]
        sources = RoutingSources.of(keys, shaped.schema, evolved.schema)
    fields = (*keys.record_fields, *[part.field for part in keys.partition_fields])
    return PreparedBatch(
        shaped.select(*columns),
        evolved,
        flag is not None,
        sources,
        tuple(dict.fromkeys(fields)),
        with_two_texts(keys, shaped.schema),
    )


def _routing_columns(shaped: DataFrame, keys: KeyGenerator) -> list[Column]:
    """Where each row goes, when it arrived, and whether it deletes."""
    arrival = F.col(ARRIVAL)
    if ARRIVAL not in shaped.columns:
        arrival = F.monotonically_increasing_id().alias(ARRIVAL)
    return [
        record_key_column(keys, shaped.schema).alias(RECORD_KEY),
        partition_path_column(keys, shaped.schema).alias(PARTITION_PATH),
        arrival,
        *([F.col(IS_DELETE)] if IS_DELETE in shaped.columns else []),
    ]


def stored_batch(found: DataFrame, table_schema: pa.Schema) -> PreparedBatch:
    """Rows of the table itself, by the keys and partition paths they are stored with, to be
    deleted."""
    columns = [F.col(RECORD_KEY), F.col(PARTITION_PATH)]
    columns += [F.monotonically_increasing_id().alias(ARRIVAL), F.lit(True).alias(IS_DELETE)]
    columns += [_null(item).alias(item.name) for item in table_schema]
    return PreparedBatch(found.select(*columns), EvolvedSchema(table_schema), has_deletes=True)


def inspect_batch(batch: PreparedBatch, ordering_fields: tuple[str, ...], table: str) -> BatchFacts:
    """Count rows per partition and refuse bad ones, in one pass over the key columns.

    Raises InvalidDataError with the number of rows without a record key (or an ordering value, or a
    readable partition value) and the key columns of one, and for partition paths that cannot be.
    """
    rows = batch.rows
    bad_key = F.col(RECORD_KEY).isNull()
    bad_order = lacks_ordering(rows, ordering_fields)
    found = (
        rows.groupBy(PARTITION_PATH)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(bad_key).alias("bad_keys"),
            F.count_if(bad_order).alias("bad_orders"),
        )
        .collect()
    )
    refuse_bad_keys(batch, sum(row.bad_keys for row in found), table)
    what = f"a null ordering value ({', '.join(ordering_fields)})"
    shown = (*batch.key_fields, *ordering_fields)
    _refuse(rows, bad_order, sum(row.bad_orders for row in found), what, table, shown)
    counts = {row[PARTITION_PATH]: row.rows for row in found}
    refuse_bad_partitions(batch, counts.get(None, 0), table)
    check_partition_paths(counts, table=table)
    return BatchFacts(counts)


def inspect_stored(batch: PreparedBatch) -> BatchFacts:
    """Count stored rows per partition. Raises CorruptTableError for rows without keys."""
    lacks = F.col(RECORD_KEY).isNull() | F.col(PARTITION_PATH).isNull()
    counts = F.count(F.lit(1)).alias("rows"), F.count_if(lacks).alias("lacking")
    found = batch.rows.groupBy(PARTITION_PATH).agg(*counts).collect()
    require_stored_keys(sum(row.lacking for row in found))
    return BatchFacts({row[PARTITION_PATH]: row.rows for row in found})


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The incoming schema. Raises InvalidDataError for a name or type that no table has."""
    fields: list[pa.Field] = []
    for item in schema.fields:
        if "`" in item.name:
            raise InvalidDataError("a column name holds a backtick", value=item.name)
        refusal = InvalidDataError(
            f"column {item.name}: a table cannot store values of type "
            f"{item.dataType.simpleString()}",
            value=item.name,
        )
        if not _is_storable(item.dataType):
            raise refusal
        try:
            typed = T.StructField(item.name, nullable_voids(item.dataType), item.nullable)
            fields += to_arrow_schema(T.StructType([typed]), timezone="UTC")
        except (PySparkException, ValueError) as error:
            raise refusal from error
    return pa.schema(fields)


def nullable_voids(kind: T.DataType) -> T.DataType:
    """The type with nulls where it has nothing else: `array()` has elements that are never null."""
    match kind:
        case T.StructType():
            fields = []
            for item in kind:
                part = nullable_voids(item.dataType)
                may_be_null = item.nullable or isinstance(part, T.NullType)
                fields.append(T.StructField(item.name, part, may_be_null))
            return T.StructType(fields)
        case T.ArrayType():
            part = nullable_voids(kind.elementType)
            return T.ArrayType(part, kind.containsNull or isinstance(part, T.NullType))
        case T.MapType():
            part = nullable_voids(kind.valueType)
            may_be_null = kind.valueContainsNull or isinstance(part, T.NullType)
            return T.MapType(nullable_voids(kind.keyType), part, may_be_null)
    return kind


def lacks_ordering(rows: DataFrame, ordering_fields: tuple[str, ...]) -> Column:
    """Whether a row that is no delete has a null in a field that orders it."""
    lacks = F.lit(False)
    for name in ordering_fields:
        lacks = lacks | column_of(name).isNull()
    return lacks & ~F.col(IS_DELETE) if IS_DELETE in rows.columns and ordering_fields else lacks


def refuse_bad_keys(batch: PreparedBatch, count: int, table: str) -> None:
    """Raise InvalidDataError with a sample when `count` of the rows have no record key."""
    what, two_texts = "a null or empty record key", batch.two_texts
    is_bad = F.col(RECORD_KEY).isNull()
    _refuse(batch.rows, is_bad, count, what, table, batch.key_fields, two_texts)


def refuse_bad_partitions(batch: PreparedBatch, count: int, table: str) -> None:
    """Raise InvalidDataError with a sample when `count` of the rows have no partition path."""
    is_bad = F.col(PARTITION_PATH).isNull()
    two_texts = batch.two_texts
    _refuse(batch.rows, is_bad, count, UNREADABLE_TIME, table, batch.key_fields, two_texts)


def _refuse(
    rows: DataFrame,
    bad: Column,
    count: int,
    what: str,
    table: str,
    shown: Iterable[str],
    two_texts: Column | None = None,
) -> None:
    """`shown` are the fields of a row that the message may show, by their dotted names."""
    if count == 0:
        return
    names = tuple(dict.fromkeys(shown))
    columns = [_printable(rows.schema, name).alias(name) for name in names]
    is_other = F.lit(False) if two_texts is None else two_texts
    sample = rows.where(bad).select(*columns, is_other).first()
    have, is_one = "has" if count == 1 else "have", sample is not None and sample[-1]
    raise InvalidDataError(
        f"{counted(count, 'incoming row')} {have} {TWO_TEXTS if is_one else what}; "
        "nothing was written",
        table=table,
        value=None if sample is None else dict(zip(names, sample[:-1], strict=True)),
    )


def _printable(schema: T.StructType, name: str) -> Column:
    """Dates and times as text, as Python does not have all of them."""
    kind = field_type(schema, name)
    is_temporal = isinstance(kind, (T.DateType, T.TimestampType, T.TimestampNTZType))
    return column_of(name).cast("string") if is_temporal else column_of(name)


def _delete_flag(frame: DataFrame, marker: DeleteMarker | None) -> Column | None:
    """Which rows delete their key; None where nothing says that any does."""
    flags = []
    if DELETED_FLAG in frame.columns:
        if not isinstance(frame.schema[DELETED_FLAG].dataType, T.BooleanType):
            raise InvalidDataError(
                f"column {DELETED_FLAG} must be boolean",
                value=frame.schema[DELETED_FLAG].dataType.simpleString(),
            )
        flags.append(F.col(DELETED_FLAG))
    if marker is not None:
        spelled = {name.lower(): name for name in frame.columns}
        if (name := spelled.get(marker.column.lower())) is not None:
            flags.append(column_named(name).cast("string") == marker.text)
    known = [F.coalesce(flag, F.lit(False)) for flag in flags]
    return reduce(Column.__or__, known) if known else None


def _is_storable(kind: T.DataType) -> bool:
    """False for types whose Arrow form is something else than their values."""
    if isinstance(kind, T.StructType):
        return bool(kind.fields) and all(_is_storable(item.dataType) for item in kind.fields)
    if isinstance(kind, T.ArrayType):
        return _is_storable(kind.elementType)
    if isinstance(kind, T.MapType):
        return _is_storable(kind.valueType)
    return not isinstance(kind, (T.VariantType, T.UserDefinedType))


def _cast_columns(frame: DataFrame, schema: pa.Schema) -> list[Column]:
    """The target's columns in order, matched by name in any case; absent ones are null."""
    spelled = {name.lower(): name for name in frame.columns}
    columns = []
    for wanted in without_meta_fields(schema):
        name = spelled.get(wanted.name.lower())
        if name is None:
            columns.append(_null(wanted).alias(wanted.name))
            continue
        found, target = frame.schema[name].dataType, _spark_type(wanted)
        columns.append(cast_by_name(column_named(name), found, target).alias(wanted.name))
    return columns


def _key_values(frame: DataFrame, incoming: pa.Schema, table_schema: pa.Schema) -> list[Column]:
    """Key columns as the table stores them; where they do not fit, as they are.

    A value that does not fit is no stored row's, but its text may be: of a long, say, where the
    table has integers.
    """
    stored = {item.name.lower(): item for item in table_schema}
    columns = []
    for name, item in zip(frame.columns, incoming, strict=True):
        column, wanted = column_named(name), stored.get(name.lower())
        kind = stored_type(item.type, name)
        if wanted is not None and kind != wanted.type and fits_in(kind, wanted.type):
            column = column.cast(_spark_type(wanted))
        columns.append(column.alias(name))
    return columns


def _null(item: pa.Field) -> Column:
    return F.lit(None).cast(_spark_type(item))


def _spark_type(item: pa.Field) -> T.DataType:
    return from_arrow_type(item.type, prefer_timestamp_ntz=True)
