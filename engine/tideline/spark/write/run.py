"""From a DataFrame to a write engine: prepare the batch and look it over before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.errors import ConfigError, TidelineError
from tideline.hudi.commit.conflict import TransactionStart
from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.file_group.row_fold import row_fold
from tideline.hudi.keys.key_generator import KeyGenerator, key_columns
from tideline.hudi.keys.key_types import check_key_types
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema import arrow_to_avro
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.batch_rules import (
    ARRIVAL,
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
from tideline.hudi.write.write_operation import WriteOperation
from tideline.spark.quoting import column_named
from tideline.spark.session.spark_session import session_zone
from tideline.spark.write.batch import (
    PARTITION_PATH,
    PreparedBatch,
    arrow_schema,
    inspect_batch,
    inspect_stored,
    prepare_batch,
    stored_batch,
)
from tideline.spark.write.engine import SparkWriteEngine
from tideline.spark.write.folded_rows import folded_rows
from tideline.spark.write.keys import column_of, partition_path_column


def open_engine(
    frame: DataFrame, table: HoodieTable, operation: WriteOperation, config: WriteConfig
) -> SparkWriteEngine:
    """Prepare a batch for one write; the caller releases the engine.

    Raises InvalidDataError for rows or columns that do not fit, before the timeline is touched;
    ConfigError for key, ordering or updated columns that the frame lacks.
    """
    ordering = needed_ordering(table.config, operation)
    timeline = table.timeline()
    keys = _keys(frame, table, timeline, operation)
    try:
        batch = _prepare(frame, table, table.schemas.newest(timeline), keys, operation, config)
    except TidelineError as error:
        error.table = error.table or table.location.uri
        raise
    spark = frame.sparkSession
    unique_by = unique_columns(operation, config)
    is_bulk = operation is WriteOperation.BULK_INSERT and not config.index.type.places_by_hash
    if is_bulk and not unique_by:
        return SparkWriteEngine(spark, table, keys, config, batch)
    kept = None
    if not is_cheap_to_repeat(frame):
        kept = batch.rows.persist(StorageLevel.MEMORY_AND_DISK)
        batch = replace(batch, rows=kept)
    try:
        facts = inspect_batch(batch, ordering, table.location.uri)
        if unique_by:
            batch = replace(batch, rows=_one_per_key(batch, unique_by, table.config, operation))
            facts = inspect_batch(batch, ordering, table.location.uri)
    except BaseException:
        if kept is not None:
            kept.unpersist()
        raise
    engine = SparkWriteEngine(
        spark, table, keys, config, batch, facts=facts, inserts_rows=operation.writes_rows
    )
    if kept is not None:
        engine.keep(kept)
    return engine


def open_matched_engine(
    found: DataFrame,
    table: HoodieTable,
    config: WriteConfig,
    seen: TransactionStart,
    groups: Callable[[], frozenset[FileGroupId] | None],
) -> SparkWriteEngine:
    """The same for rows that a condition matched, read when the writes `seen` were there, which are
    to be deleted; `groups`, once they are computed, have all of them. Raises CorruptTableError for
    rows without the keys that they should have."""
    delete = WriteOperation.DELETE
    keys, schema = KeyGenerator.from_config(table.config), table.schemas.newest(table.timeline())
    if table.config.populate_meta_fields:
        batch = stored_batch(found, schema or pa.schema([]))
    else:
        batch = _prepare(found, table, schema, keys, delete, config)
    kept = batch.rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        batch = replace(batch, rows=kept)
        count = inspect_stored(batch).rows
        matched = MatchedRows(count, seen, groups())
        unique = latest_per_key(batch, (RECORD_KEY, PARTITION_PATH), ())
        batch = replace(batch, rows=unique)
        facts = inspect_stored(batch)
    except BaseException as error:
        kept.unpersist()
        if isinstance(error, TidelineError):
            error.table = error.table or table.location.uri
        raise
    engine = SparkWriteEngine(
        found.sparkSession,
        table,
        keys,
        config,
        batch,
        facts=facts,
        inserts_rows=False,
        matched=matched,
    )
    engine.keep(kept)
    return engine


def try_write(
    frame: DataFrame, table: HoodieTable, operation: WriteOperation, config: WriteConfig
) -> None:
    """Do with a batch all that a write does before it starts: prepare it, compute every row and
    look the keys over. Raises as `open_engine` does, and what Spark raises for a row."""
    ordering = needed_ordering(table.config, operation)
    timeline = table.timeline()
    keys = _keys(frame, table, timeline, operation)
    batch = _prepare(frame, table, table.schemas.newest(timeline), keys, operation, config)
    inspect_batch(batch, ordering, table.location.uri)
    batch.rows.write.format("noop").mode("overwrite").save()


def is_cheap_to_repeat(frame: DataFrame) -> bool:
    """Whether reading the input several times costs less than keeping it, and is safe.

    So it is for columns picked from parquet files by deterministic expressions; anything else
    (text formats, joins, Python functions, random values, the present time) is computed once and
    kept.
    """
    execution = frame._jdf.queryExecution()
    # Each query puts its own time in place of current_timestamp() and its kin.
    jvm: Any = frame.sparkSession._jvm
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    if execution.analyzed().containsPattern(current):
        return False
    plan = execution.optimizedPlan()
    while plan.deterministic():
        kind = plan.getClass().getSimpleName()
        if kind == "LocalRelation":
            return True
        if kind == "LogicalRelation":
            relation = plan.relation()
            is_files = relation.getClass().getSimpleName() == "HadoopFsRelation"
            return is_files and str(relation.fileFormat().toString()) == "Parquet"
        if kind not in ("Project", "Filter"):
            return False
        plan = plan.children().head()
    return False


def _one_per_key(
    batch: PreparedBatch, key: tuple[str, ...], config: TableConfig, operation: WriteOperation
) -> DataFrame:
    if operation is WriteOperation.DELETE:
        return latest_per_key(batch, key, ())
    fold = row_fold(config, batch.schema.schema, *key)
    if fold is None:
        return latest_per_key(batch, key, config.ordering_fields)
    return folded_rows(batch.rows, fold)


def latest_per_key(batch: PreparedBatch, key: Sequence[str], ordering: Sequence[str]) -> DataFrame:
    """One row per `key`: the highest ordering value, then arrival.

    Only for keys whose duplicates do not meet in one task anyway (see `write.dedupe`).
    """
    rows = batch.rows
    is_repeated = rows.groupBy(*key).count().where(F.col("count") > 1).limit(1)
    if is_repeated.isEmpty():
        return rows
    rank = F.struct(*[column_of(name) for name in ordering], F.col(ARRIVAL))
    everything = F.struct(*[column_named(name) for name in rows.columns])
    latest = rows.groupBy(*key).agg(F.max_by(everything, rank).alias("_row"))
    return latest.select("_row.*")


def partitions_to_delete(frame: DataFrame, table: HoodieTable) -> tuple[str, ...]:
    """The partition paths of a frame's rows.

    Raises ConfigError for an unpartitioned table, InvalidDataError for values that make no path.
    """
    keys = _keys(frame, table, table.timeline(), WriteOperation.DELETE_PARTITION)
    if not keys.partition_fields:
        raise ConfigError("the table has no partitions to delete", table=table.location.uri)
    path = partition_path_column(keys, frame.schema).alias(PARTITION_PATH)
    found = {row[0] for row in frame.select(path).distinct().collect()}
    return named_partitions(found, table.location.uri)


def _keys(
    frame: DataFrame, table: HoodieTable, timeline: ActiveTimeline, operation: WriteOperation
) -> KeyGenerator:
    """The table's key generator; Spark shows times in the zone of its session."""
    replaces_all = operation is WriteOperation.INSERT_OVERWRITE_TABLE
    zone = session_zone(frame.sparkSession)
    return key_generator(table, timeline, zone=zone, replaces_all=replaces_all)


def _prepare(
    frame: DataFrame,
    table: HoodieTable,
    table_schema: pa.Schema | None,
    keys: KeyGenerator,
    operation: WriteOperation,
    config: WriteConfig,
) -> PreparedBatch:
    """The batch in the table's shape; everything that can be refused without reading a row is."""
    check_columns(frame.columns, table.config, operation, config)
    if table_schema is None:
        frame = frame.withColumnsRenamed(new_spellings(frame.columns, table.config))
    named = map(column_named, key_columns(frame.columns, keys))
    check_key_types(
        table_schema,
        arrow_schema(frame.select(*named).schema),
        keys,
        replaces_all=operation is WriteOperation.INSERT_OVERWRITE_TABLE,
        deletes=operation is WriteOperation.DELETE,
    )
    batch = prepare_batch(
        frame,
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
