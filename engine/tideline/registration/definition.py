"""What a Hudi table registers as: columns, Hive's classes and the parameters by which engines
recognise it. Pure.

1. A copy-on-write table is one table of the metastore. A merge-on-read table is three: `_ro`, read
   as of its compacted files, `_rt`, with what logs hold, and one without a suffix, as `_rt`.
2. Columns are Hudi's own and the table's, in lower case; partition columns come apart. A time that
   a key generator formats into the path is text there, whatever the column holds.
3. Spark reads its own schema from parameters (`spark.sql.sources.*`), in parts of 4,000 characters.

Source: Hudi's HiveSyncTool, HMSDDLExecutor, SparkDataSourceTableUtils, HoodieInputFormatUtils.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.meta_column import with_meta_fields
from tideline.hudi.table.table_config import TableConfig, TableType
from tideline.registration.column_types import hive_type, spark_schema
from tideline.registration.metastore import (
    RegisteredColumn,
    RegisteredTable,
    StorageFormat,
)
from tideline.registration.partition_values import PartitionValues
from tideline.registration.table_name import TableName

PROVIDER = "spark.sql.sources.provider"
HUDI = "hudi"
SPARK_SCHEMA = "spark.sql.sources.schema"
SCHEMA_PREFIX = f"{SPARK_SCHEMA}."
_PART_LENGTH = 4000
_STRING = "string"
_READ_OPTIMISED, _SNAPSHOT = "_ro", "_rt"
_PARQUET = (
    "org.apache.hudi.hadoop.HoodieParquetInputFormat",
    "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a table registers as, and how its partition folders become values."""

    tables: tuple[RegisteredTable, ...]
    values: PartitionValues

    def values_of(self, seen: RegisteredTable | None) -> PartitionValues:
        """The same as the metastore has them, where it has the table."""
        return self.values if seen is None else self.values.registered_as(seen.partition_columns)


def definition(
    config: TableConfig,
    columns: pa.Schema,
    *,
    name: TableName,
    location: str,
    parameters: Mapping[str, str],
) -> Definition:
    """What a table with these columns registers as: at `location`, with further `parameters`.

    Raises UnsupportedTableError naming what no metastore can hold.
    """
    refuse_unregistrable(config)
    every = with_meta_fields(columns) if config.populate_meta_fields else columns
    values = PartitionValues(config, columns)
    kept, partition_columns = _columns(every, values, config)
    shared = {
        "EXTERNAL": "TRUE",
        **_spark_parameters(every, values.columns),
        **parameters,
    }
    variants = zip(registered_names(config, name), _variants(config.table_type), strict=True)
    tables = tuple(
        RegisteredTable(
            variant,
            kept,
            partition_columns,
            location,
            _format(location, reads_logs=reads_logs, read_optimised=read_optimised),
            shared,
        )
        for variant, (_, reads_logs, read_optimised) in variants
    )
    return Definition(tables, values)


def registered_names(config: TableConfig, name: TableName) -> tuple[TableName, ...]:
    """The names of these tables, in the same order."""
    return tuple(
        TableName(name.database, f"{name.name}{suffix}")
        for suffix, _, _ in _variants(config.table_type)
    )


def refuse_unregistrable(config: TableConfig) -> None:
    """Raise UnsupportedTableError for a table that engines could not read through a metastore."""
    if config.base_file_format != "PARQUET":
        message = "only tables of Parquet files are registered in a metastore"
        raise UnsupportedTableError(message, table=config.table_uri, value=config.base_file_format)


def spark_schema_of(parameters: Mapping[str, str]) -> str:
    """The schema that parameters hold, whole or in parts, as JSON; empty without any."""
    if whole := parameters.get(SPARK_SCHEMA):
        return whole
    parts = parameters.get(f"{SCHEMA_PREFIX}numParts", "0")
    numbers = range(int(parts) if parts.isdigit() and len(parts) < 5 else 0)
    return "".join(parameters.get(f"{SCHEMA_PREFIX}part.{number}", "") for number in numbers)


def _variants(kind: TableType) -> tuple[tuple[str, bool, bool], ...]:
    """The suffix of each table, whether its readers read logs, and whether Spark leaves them."""
    if kind is TableType.COPY_ON_WRITE:
        return (("", False, False),)
    return ((_READ_OPTIMISED, False, True), (_SNAPSHOT, True, False), ("", True, False))


def _format(location: str, *, reads_logs: bool, read_optimised: bool) -> StorageFormat:
    plain, realtime, output, serde = _PARQUET
    return StorageFormat(
        realtime if reads_logs else plain,
        output,
        serde,
        {
            "serialization.format": "1",
            "path": location,
            "hoodie.query.as.ro.table": str(read_optimised).lower(),
        },
    )


def _columns(
    every: pa.Schema, values: PartitionValues, config: TableConfig
) -> tuple[tuple[RegisteredColumn, ...], tuple[RegisteredColumn, ...]]:
    """The columns, and the partition columns apart."""
    _refuse_equal_names([*every.names, *set(values.columns).difference(every.names)], config)
    kept = tuple(
        RegisteredColumn(column.name.lower(), hive_type(column.type, column.name))
        for column in every
        if column.name not in values.columns
    )
    return kept, tuple(
        RegisteredColumn(name.lower(), _partition_type(every, name, values))
        for name in values.columns
    )


def _partition_type(every: pa.Schema, name: str, values: PartitionValues) -> str:
    is_text = name in values.times or name not in every.names
    return _STRING if is_text else hive_type(every.field(name).type, name)


def _refuse_equal_names(names: Iterable[str], config: TableConfig) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            message = (
                f"columns {other} and {name} differ in upper and lower case alone, which "
                "metastores do not tell apart: rename one"
            )
            raise UnsupportedTableError(message, table=config.table_uri, value=name)


def _spark_parameters(every: pa.Schema, partition_columns: tuple[str, ...]) -> dict[str, str]:
    ordered = [column for column in every if column.name not in partition_columns]
    ordered += [every.field(name) for name in partition_columns if name in every.names]
    text = json.dumps(spark_schema(ordered), separators=(",", ":"), ensure_ascii=False)
    parts = [text[start : start + _PART_LENGTH] for start in range(0, len(text), _PART_LENGTH)]
    found = {PROVIDER: HUDI, f"{SCHEMA_PREFIX}numParts": str(len(parts))}
    found |= {f"{SCHEMA_PREFIX}part.{number}": part for number, part in enumerate(parts)}
    if partition_columns:
        found[f"{SCHEMA_PREFIX}numPartCols"] = str(len(partition_columns))
        found |= {
            f"{SCHEMA_PREFIX}partCol.{number}": name
            for number, name in enumerate(partition_columns)
        }
    return found
