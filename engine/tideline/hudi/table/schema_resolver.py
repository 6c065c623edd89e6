"""From the schema a table's metadata names to Arrow, and where that is silent, from a footer.

Source: Hudi's TableSchemaResolver.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tideline.errors import CorruptTableError, ObjectNotFoundError, TidelineError
from tideline.formats.parquet_footer import is_broken_footer, read_schema
from tideline.hudi.table.avro_schema import avro_to_arrow
from tideline.hudi.table.column_type import stored_type
from tideline.hudi.table.meta_column import without_meta_fields
from tideline.hudi.table.table_config import TableConfig
from tideline.storage.object_store import ObjectStore


def read_schema_json(schema_json: str, config: TableConfig) -> pa.Schema:
    """The user's columns of a schema in Avro JSON; dropped partition columns come last.

    Raises CorruptTableError or UnsupportedTableError naming the table.
    """
    try:
        schema = without_meta_fields(avro_to_arrow(schema_json))
    except TidelineError as error:
        raise type(error)(error.message, table=config.table_uri, value=error.value) from error
    return _with_partition_columns(schema, config)


def read_footer_schema(
    store: ObjectStore, base_file_paths: Iterable[str], config: TableConfig
) -> pa.Schema | None:
    """The user's columns of the first of these base files that still exists, None without any.

    Raises CorruptTableError naming a file that is no Parquet file.
    """
    for path in base_file_paths:
        try:
            with store.open_reader(path) as reader:
                footer = read_schema(reader, path=path)
        except ObjectNotFoundError:
            continue
        except (ValueError, OSError) as error:
            if not is_broken_footer(error):
                raise
            raise CorruptTableError(
                "base file is not a parquet file", table=store.uri, path=path
            ) from error
        columns = [
            pa.field(item.name, stored_type(item.type, item.name, keep_millis=True), item.nullable)
            for item in without_meta_fields(footer)
        ]
        return _with_partition_columns(pa.schema(columns), config)
    return None


def _with_partition_columns(schema: pa.Schema, config: TableConfig) -> pa.Schema:
    if not config.drop_partition_columns:
        return schema
    dropped = [name for name in config.partition_fields if name not in schema.names]
    return pa.schema([*schema, *(pa.field(name, pa.string()) for name in dropped)])
