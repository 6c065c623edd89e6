"""Erasing rows of an Iceberg table, so that a run that died is finished by running it again.

1. Branches and tags keep snapshots: unless `main` is the only one, nothing is done.
2. Landing prefixes that are named are searched; where it was asked for, their files with such rows
   are deleted, so that no ingest brings them back.
3. Of the newest snapshot the data files with rows that match, hidden ones included, and those that
   deletes apply to whose files hold values (equality deletes, and position deletes that keep rows
   that match), are rewritten: without rows that match and without those that are deleted. One
   commit exchanges them, and rewrites manifests that give bounds of files removed before. Where
   another writer was first, the new files are removed and it is planned again.
4. One more commit drops the delete files that are left without a purpose.
5. All other snapshots are expired, and the files that only they led to are deleted.

Died after 3: no row matches, and the next run continues with 4. Rows that come in concurrently
stay, and the proof says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from tideline.clock import Clock
from tideline.erasure.iceberg_proof import Condition, prove_iceberg, refuse_other_refs
from tideline.erasure.report import (
    NOT_REACHED_ICEBERG,
    ErasureReport,
)
from tideline.erasure.source_files import NO_LANDING, LandingRequest
from tideline.errors import ConflictError, TidelineError
from tideline.formats.gathered_rows import gathered
from tideline.iceberg.commit.exchange_files import ExchangeFiles, commit_exchange
from tideline.iceberg.commit.manifest_filter import has_old_bounds
from tideline.iceberg.commit.rewrite_files import RewriteFiles, commit_rewrite
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.file_rows import FileRows
from tideline.iceberg.data.partitioned_writer import Output, write_data_files
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.file_access import check_access
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.rewrite_data_files.dangling_deletes import find_dangling_deletes
from tideline.iceberg.services.rewrite_data_files.execute import RewriteContext
from tideline.iceberg.services.table_setting import refuse_without_gc
from tideline.iceberg.table.clean_up import remove_quietly
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import (
    Conflicted,
    Unknown,
    committed_location,
    unknown_error,
)
from tideline.plain_json import members
from tideline.retry import RetryPolicy
from tideline.spark.read.matching import count_matching, matching_rows
from tideline.spark.session.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RETRIES = RetryPolicy.at_once(2)
_PART_BYTES = 64 * 1024 * 1024
_FILE_BYTES_MIN = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IcebergErasure(ErasureReport):
    """What an erasure of an Iceberg table did, or with `is_preview` would do.

    `matching` are the rows in data files of the newest snapshot that matched, those included that
    deletes hide; `landing` is there for each prefix that was named.
    """

    UNSEEN: ClassVar[tuple[str, ...]] = NOT_REACHED_ICEBERG

    files_rewritten: int = 0
    files_added: int = 0
    snapshot_id: int | None = None
    delete_files_removed: int = 0
    snapshots_expired: int = 0
    files_deleted: int = 0

    def _done(self) -> dict[str, Any]:
        return {
            **members(self, "files_rewritten", "files_added"),
            "snapshot": None if self.snapshot_id is None else str(self.snapshot_id),
            **members(self, "delete_files_removed", "snapshots_expired", "files_deleted"),
        }


def erase_iceberg_rows(
    table: IcebergTable,
    where: str,
    *,
    proves: bool = False,
    landing: LandingRequest = NO_LANDING,
    is_preview: bool = False,
    spark: SparkSession | None = None,
    clock: Clock | None = None,
) -> IcebergErasure:
    """Erase the rows that match a condition in Spark's SQL.

    Raises ConfigError for what is no condition, for branches, tags and tables whose files are
    shared; ConflictError when other writers were always first (call again), UnknownOutcomeError,
    UnsupportedTableError, CorruptTableError, and StorageUnavailableError when files cannot be
    deleted: then nothing was changed.
    """
    table.refresh()
    refuse_other_refs(table.metadata)
    refuse_without_gc(table.metadata)
    # The table's rows are read by our own clients; Spark looks at conditions, and source files.
    spark = spark or spark_session(locations=landing.places)
    condition = Condition.of(spark, table.io, table.metadata, where)
    before = prove_iceberg(spark, table.io, table.metadata, condition) if proves else None
    found = _affected(spark, table, condition)
    done = IcebergErasure(where, found.matching, before=before, is_preview=is_preview)
    if not is_preview:
        check_access(table.io, table.metadata)
    columns = arrow_schema(table.metadata.schema().fields)
    done = replace(done, landing=landing.search(spark, where, columns, is_preview=is_preview))
    if is_preview:
        return replace(done, files_rewritten=len(found.tasks))
    for _ in _RETRIES.attempts():
        exchanged = _exchange(spark, table, condition, found, done)
        table.refresh()
        if exchanged is not None:
            break
        found = _affected(spark, table, condition)
    else:
        raise ConflictError("other writers were always first", table=table.metadata.location)
    done = _drop_history(table, exchanged, clock)
    if proves:
        done = replace(done, after=prove_iceberg(spark, table.io, table.metadata, condition))
    return done


@dataclass(frozen=True, slots=True)
class _Affected:
    """The files to rewrite, and how many rows that match they hold."""

    tasks: tuple[FileScanTask, ...]
    matching: int


def _affected(spark: SparkSession, table: IcebergTable, condition: Condition) -> _Affected:
    io, metadata = table.io, table.metadata
    tasks = list(plan_files(io, metadata, metadata.snapshot()))
    reader = FileRows(io, RewriteContext.of(metadata, write_id="").rows)

    positions = {
        delete.file_path: delete
        for task in tasks
        for delete in task.position_deletes
        if delete.file_format == "PARQUET"
    }

    def matching(
        files: Iterable[DataFile],
        read: Callable[[DataFile, Sequence[NestedField]], Iterator[pa.RecordBatch]],
    ) -> Mapping[str, int]:
        rows = (
            (file.file_path, pa.RecordBatch.from_arrays(batch.columns, schema=condition.schema))
            for file in files
            for batch in read(file, condition.fields)
        )
        return count_matching(spark, io.location, condition.where, condition.schema, rows)

    in_data = matching((task.data_file for task in tasks), reader.columns)
    in_deletes = matching(positions.values(), reader.deleted) if positions else {}
    chosen = (
        task
        for task in tasks
        if task.data_file.file_path in in_data
        or task.equality_deletes
        or any(delete.file_path in in_deletes for delete in task.position_deletes)
    )
    return _Affected(tuple(chosen), sum(in_data.values()))


def _exchange(
    spark: SparkSession,
    table: IcebergTable,
    condition: Condition,
    found: _Affected,
    done: IcebergErasure,
) -> IcebergErasure | None:
    """Rewrite the files and exchange them; None where another writer was first."""
    io, metadata = table.io, table.metadata
    if not found.tasks and not has_old_bounds(io, metadata.snapshot()):
        return done
    written: list[DataFile] = []
    try:
        for number, task in enumerate(found.tasks):
            written += _written(spark, table, condition, task, number)
    except BaseException:
        remove_quietly(io, (file.file_path for file in written))
        raise
    removed = tuple(task.data_file for task in found.tasks)
    exchange = ExchangeFiles(
        metadata.current_snapshot_id,
        tuple(written),
        removed,
        is_rearrangement=not removed,
        drops_old_bounds=True,
    )
    try:
        outcome = commit_exchange(table.operations, exchange)
    except TidelineError:
        # After anything else, such as an interrupt, the files may be the table's.
        remove_quietly(io, (file.file_path for file in written))
        raise
    if isinstance(outcome, Unknown):
        raise unknown_error(outcome, table=metadata.location, what="the rows are erased")
    if isinstance(outcome, Conflicted):
        remove_quietly(io, (file.file_path for file in written))
        return None
    return replace(
        done,
        matching=found.matching,
        files_rewritten=len(removed),
        files_added=len(written),
        snapshot_id=outcome.snapshot_id,
    )


def _written(
    spark: SparkSession, table: IcebergTable, condition: Condition, task: FileScanTask, number: int
) -> tuple[DataFile, ...]:
    """New files with the live rows of one that do not match."""
    io, metadata, file = table.io, table.metadata, task.data_file
    name = f"{number:05d}-erase-{uuid.uuid4()}"
    context = RewriteContext.of(metadata, write_id=name)
    spec = context.rows.specs[task.spec_id]
    partition = (None,) * len(spec.fields) if spec.is_unpartitioned else file.partition
    target = Output(
        schema=context.rows.schema,
        spec=spec,
        partition=partition,
        locations=context.locations,
        name_prefix=name,
        row_bytes=file.file_size_bytes / max(1, file.record_count),
        size_bytes_max=max(_FILE_BYTES_MIN, 2 * file.file_size_bytes),
    )
    rows = FileRows(io, context.rows).batches(task)
    return write_data_files(io, context.files, target, _kept(spark, condition, rows))


def _kept(
    spark: SparkSession, condition: Condition, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows that do not match, some batches at a time."""
    for rows in gathered(batches, _PART_BYTES):
        asked = rows.select(condition.schema.names)
        kept = np.ones(rows.num_rows, bool)
        kept[matching_rows(spark, condition.where, asked)] = False
        yield from rows.filter(pa.array(kept)).to_batches()


def _drop_history(table: IcebergTable, done: IcebergErasure, clock: Clock | None) -> IcebergErasure:
    """Steps 3 and 4."""
    head = table.metadata.snapshot()
    if head is None:
        return done
    dangling = find_dangling_deletes(table.io, table.metadata, head)
    if dangling:
        rewrite = RewriteFiles(head.snapshot_id, removed_deletes=dangling)
        outcome = commit_rewrite(table.operations, rewrite, clock=clock)
        committed_location(outcome, table=table.metadata.location)
        table.refresh()
    current = table.metadata.current_snapshot_id
    others = tuple(
        snapshot.snapshot_id
        for snapshot in table.metadata.snapshots
        if snapshot.snapshot_id != current
    )
    run = execute_expire(table.operations, ExpireOptions(snapshot_ids=others), clock=clock)
    committed_location(run.outcome, table=table.metadata.location)
    table.refresh()
    return replace(
        done,
        delete_files_removed=len(dangling),
        snapshots_expired=len(run.plan.snapshot_ids),
        files_deleted=run.deleted.counts.total(),
        remarks=run.left if run.failure is None else (*run.left, run.failure.message),
    )
