"""From rows in Arrow to a write inside this process: which ones it is for, and the write itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tideline.errors import ConfigError, TidelineError
from tideline.formats.frame_rows import pandas_rows, require_different_names
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.file_group.row_fold import row_fold
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.key_types import check_key_types
from tideline.hudi.keys.partition_time import UTC, unknown_pattern
from tideline.hudi.keys.row_keys import partition_paths
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import PARTITION_PATH
from tideline.hudi.table.schema import arrow_to_avro
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.write.batch_rules import (
    check_columns,
    check_computed_keys,
    missing_columns,
    named_partitions,
    needed_ordering,
    new_spellings,
    unique_columns,
)
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.matched_rows import MatchedRows
from tideline.hudi.write.table_writer import TableWriter
from tideline.hudi.write.work_parts import PartRunner
from tideline.hudi.write.write_operation import WriteOperation
from tideline.hudi.write.write_request import WriteDone, WriteRequest
from tideline.in_process.arrangement import last_of_each
from tideline.in_process.engine import InProcessWriteEngine
from tideline.in_process.filled_rows import folded
from tideline.in_process.located_keys import KeyCodes
from tideline.in_process.prepared_rows import PreparedRows, key_rows, prepare_rows, stored_rows
from tideline.settings.small_engine import SmallEngine

BATCH_BYTES_MAX = 512 * 1024 * 1024
"""In memory. Larger batches are for Spark."""
_UTC_NAMES = frozenset({UTC, "Etc/UTC", "GMT", "Z", "+00:00"})


def arrow_table(rows: Any) -> pa.Table | None:
    """Rows as an Arrow table: pyarrow's own forms, pandas and all that give Arrow streams, such as
    Polars and DuckDB; None for anything else, a Spark DataFrame say.

    Raises InvalidDataError for values of pandas that have no common type, and for a column that is
    there twice.
    """
    found = _as_arrow(rows)
    return None if found is None else require_different_names(found)


def _as_arrow(rows: Any) -> pa.Table | None:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, ds.Dataset):
        return rows.to_table()
    library = type(rows).__module__.partition(".")[0]
    if library == "pandas":
        return pandas_rows(rows) if hasattr(rows, "columns") else None
    if library != "pyspark" and hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    return None


def why_spark(
    size_bytes: int,
    table: HoodieTable,
    config: WriteConfig,
    *,
    zone: str | None = None,
) -> str | None:
    """Why a write of rows of this size needs Spark; None where it does not.

    `zone` is that of the program's Spark session, None where it has none.
    """
    if config.small_engine is SmallEngine.SPARK:
        return "tideline.engine.small is spark"
    if size_bytes > BATCH_BYTES_MAX:
        return f"a batch of more than {BATCH_BYTES_MAX >> 20} MiB"
    keys = KeyGenerator.from_config(table.config)
    for part in keys.partition_fields:
        unknown = None if part.timestamp is None else unknown_pattern(part.timestamp)
        if unknown is not None:
            return f"partition paths formatted from times in a way of their own ({unknown})"
    if keys.timestamps_as_text and not is_utc(zone):
        return f"timestamps as text in keys, in the zone {zone} of the Spark session"
    return None


def is_utc(zone: str | None) -> bool:
    """Whether times without a zone are in UTC; None stands for no zone of anybody's."""
    return (zone or UTC) in _UTC_NAMES


def write_rows(rows: pa.Table, writer: TableWriter, request: WriteRequest) -> WriteDone:
    """Write the rows as one commit, several times over while others are faster.

    Raises as `LakeTable.write`.
    """
    table, operation, config = writer.table, request.operation, request.config
    return writer.write_with_retries(lambda: open_engine(rows, table, operation, config), request)


def open_engine(
    rows: pa.Table,
    table: HoodieTable,
    operation: WriteOperation,
    config: WriteConfig,
    *,
    runner: PartRunner | None = None,
) -> InProcessWriteEngine:
    """Prepare a batch for one write, whose parts `runner` does, else threads here.

    Raises InvalidDataError for rows or columns that do not fit, before the timeline is touched;
    ConfigError for key, ordering or updated columns that are missing.
    """
    replaces_all = operation is WriteOperation.INSERT_OVERWRITE_TABLE
    timeline = table.timeline()
    keys = key_generator(table, timeline, replaces_all=replaces_all)
    try:
        batch = _prepare(rows, table, table.schemas.newest(timeline), keys, operation, config)
    except TidelineError as error:
        error.table = error.table or table.location.uri
        raise
    batch = _one_per_key(batch, unique_columns(operation, config), table.config, operation)
    return InProcessWriteEngine(
        table, keys, config, batch, inserts_rows=operation.writes_rows, runner=runner
    )


def open_matched_engine(
    found: pa.Table,
    table: HoodieTable,
    config: WriteConfig,
    seen: TransactionStart,
    groups: frozenset[FileGroupId] | None = None,
    *,
    runner: PartRunner | None = None,
) -> InProcessWriteEngine:
    """The same for rows that a condition matched, read when the writes `seen` were there, which are
    to be deleted; `groups` have all of them. Raises CorruptTableError for rows without the keys
    that they should have."""
    delete = WriteOperation.DELETE
    keys = KeyGenerator.from_config(table.config)
    schema = table.schemas.newest(table.timeline())
    try:
        if table.config.populate_meta_fields:
            batch = stored_rows(found, schema or pa.schema([]))
        else:
            batch = _prepare(found, table, schema, keys, delete, config)
    except TidelineError as error:
        error.table = error.table or table.location.uri
        raise
    matched = MatchedRows(len(batch), seen, groups)
    batch = _one_per_key(batch, (RECORD_KEY, PARTITION_PATH), table.config, delete)
    return InProcessWriteEngine(
        table, keys, config, batch, inserts_rows=False, runner=runner, matched=matched
    )


def partitions_to_delete(rows: pa.Table, table: HoodieTable) -> tuple[str, ...]:
    """The partition paths of the rows.

    Raises ConfigError for an unpartitioned table, InvalidDataError for values that make no path.
    """
    keys = key_generator(table)
    if not keys.partition_fields:
        raise ConfigError("the table has no partitions to delete", table=table.location.uri)
    paths = partition_paths(key_rows(rows, replace(keys, record_fields=())), keys)
    return named_partitions(pc.unique(paths.dictionary_decode()).to_pylist(), table.location.uri)


def _prepare(
    rows: pa.Table,
    table: HoodieTable,
    table_schema: pa.Schema | None,
    keys: KeyGenerator,
    operation: WriteOperation,
    config: WriteConfig,
) -> PreparedRows:
    """The batch in the table's shape."""
    names = rows.schema.names
    check_columns(names, table.config, operation, config)
    if table_schema is None:
        spelled = new_spellings(names, table.config)
        rows = rows.rename_columns([spelled.get(name, name) for name in names])
    check_key_types(
        table_schema,
        rows.schema,
        keys,
        replaces_all=operation is WriteOperation.INSERT_OVERWRITE_TABLE,
        deletes=operation is WriteOperation.DELETE,
    )
    batch = prepare_rows(
        rows,
        keys,
        table_schema,
        ordering=needed_ordering(table.config, operation),
        deletes_only=operation is WriteOperation.DELETE,
        missing=missing_columns(operation, config),
        delete_marker=config.delete_marker,
    )
    check_computed_keys(batch.schema.schema, table.config, keys)
    # Also refuses names and types that Hudi's schemas do not have.
    arrow_to_avro(batch.schema.schema, name="checked", namespace="")
    return batch


def _one_per_key(
    batch: PreparedRows, key: tuple[str, ...], config: TableConfig, operation: WriteOperation
) -> PreparedRows:
    """The batch with one row for each `key`, where that is wanted; only for keys whose duplicates
    do not meet in one bucket anyway."""
    if not key:
        return batch
    codes = KeyCodes.of(batch, is_global=key == (RECORD_KEY,)).of_rows
    if len(np.unique(codes)) == len(batch):
        return batch
    if operation is WriteOperation.DELETE:
        return batch.take(last_of_each(batch, codes, ()))
    fold = row_fold(config, batch.schema.schema)
    if fold is None:
        return batch.take(last_of_each(batch, codes, config.ordering_fields))
    return folded(batch, fold, codes)
