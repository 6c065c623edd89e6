"""What would become of landed files, without writing anything: neither rows nor notes. Without
files, whether Spark understands the SQL of an ingest.

The files are read as an ingest reads them, and checked where they do not fit. Where there is no
table yet, one in memory stands in for it, so that rows without a key are found as well. Whether
rows insert or update is not looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import evolve
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.arrow_schema import arrow_schema
from tideline.ingest.execute.in_process_intake import ForSpark, InProcessIntake, require_spark
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.table_access import (
    Progress,
    SessionFactory,
    create_declared_table,
    locate,
    open_table,
)
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.operation.column_type import plain_name
from tideline.ingest.operation.operation import IngestFiles, Location, Operation
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.ingest.sources.files.listing import ArrivedFile, FileListing
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from tideline.spark.source_files.bad_rows import BadRow
    from tideline.spark.source_files.sources import SourceSettings


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The rows that a commit would have: their columns with types, how many record keys."""

    rows: int
    columns: tuple[tuple[str, str], ...]
    record_key: tuple[str, ...]
    record_keys: int

    def to_json_object(self) -> dict[str, Any]:
        return {
            "columns": [[name, plain_name(kind)] for name, kind in self.columns],
            "record_key": list(self.record_key),
            "record_keys": self.record_keys,
        }


@dataclass(slots=True)
class _Learned:
    """What attempts have found to set aside."""

    files: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Sequence[BadRow]] = field(default_factory=dict)
    left_out: frozenset[int] = frozenset()
    reading: SourceSettings | None = None


def rehearse_ingest(
    operation: Operation,
    work: IngestFiles,
    *,
    session_factory: SessionFactory,
    progress: Progress,
) -> OperationResult:
    """Say what an ingest would do with `work.files`; the audit has what a `Rehearsed` says.

    Raises what an ingest raises: InvalidDataError for a file where bad ones fail, ConfigError for
    a transform or a read option that cannot be.
    """
    if not work.files:
        _check_sql(operation, work, session_factory)
        return OperationResult(operation.id, Outcome.NOTHING)
    table = open_table(operation.table)
    checkpoints = current_checkpoints(table, work.name, work.former_name)
    stand_in = table or _stand_in(operation)
    learned = _Learned()
    files = work.files
    while files:
        batch = IngestBatch(operation, work, files, stand_in, checkpoints, FileListing(), progress)
        done = _in_process(batch) if not learned.files and not learned.rows else None
        if done is None or isinstance(done, ForSpark):
            if done is not None:
                require_spark(done)
            done = _on_spark(batch, learned, session_factory)
        if isinstance(done, Rehearsed):
            return _result(operation, done, files, learned)
        if learned.files and not work.quarantines:
            path, reason = next(iter(learned.files.items()))
            raise InvalidDataError(f"source file cannot be taken in: {reason}", path=path)
        files = tuple(file for file in files if file.path not in learned.files)
    return _result(operation, Rehearsed(0, (), (), 0), (), learned)


def _check_sql(operation: Operation, work: IngestFiles, session_factory: SessionFactory) -> None:
    if work.transform is None and work.delete_when is None:
        return
    require_spark(ForSpark("SQL is Spark's"))
    from tideline.spark.source_files.landed_rows import check_sql, struct_of

    columns = struct_of(arrow_schema(work.source_schema)) if work.source_schema else None
    try:
        check_sql(
            session_factory(_places(operation, work)), work.transform, work.delete_when, columns
        )
    except ConfigError as error:
        said = f"ingest {work.name!r}: {error.message}"
        raise ConfigError(said, table=operation.table.name, value=error.value) from error


def _places(operation: Operation, work: IngestFiles) -> list[StoreLocation]:
    return [locate(operation.table.location), locate(work.landing)]


def _stand_in(operation: Operation) -> LakeTable:
    """The table as it would be created, in memory."""
    place = Location(f"memory://{uuid4().hex}")
    return create_declared_table(replace(operation.table, location=place))


def _in_process(batch: IngestBatch) -> Rehearsed | ForSpark:
    """What parquet files would give, read by this process; or why they are for Spark, which also
    says what does not fit."""
    work, table = batch.work, batch.table
    assert table is not None
    intake = InProcessIntake.of(work)
    kind = WriteOperation.parse(work.write_operation)
    try:
        rows = intake.rows(batch.paths, table, kind, batch.operation.table.write_properties)
        if isinstance(rows, ForSpark):
            return rows
        known = batch.table_schema()
        if known is not None and not batch.deletes:
            evolve(known, rows.schema, missing=MissingColumns.NULL)
        return _counted_in_arrow(rows, table)
    except (InvalidDataError, ConfigError) as error:
        return ForSpark("something does not fit", error)


def _counted_in_arrow(rows: pa.Table, table: LakeTable) -> Rehearsed | ForSpark:
    config = table.hoodie_table.config
    own = {name.lower(): name for name in rows.column_names}
    needed = (*config.record_key_fields, *config.ordering_fields)
    if any(name.lower() not in own for name in needed):
        return ForSpark("a key or ordering column is nested, or is not there")
    if any(rows[own[name.lower()]].null_count for name in needed):
        return ForSpark("a key or ordering column has nulls")
    key = [own[name.lower()] for name in config.record_key_fields]
    keys = rows.select(key).group_by(key).aggregate([]).num_rows if key else rows.num_rows
    columns = tuple((one.name, str(one.type)) for one in rows.schema if one.name != ARRIVAL)
    return Rehearsed(rows.num_rows, columns, config.record_key_fields, keys)


def _on_spark(
    batch: IngestBatch, learned: _Learned, session_factory: SessionFactory
) -> Rehearsed | None:
    """What the files would give; None where more of them, or of their rows, were found bad."""
    from tideline.ingest.execute.ingest_on_spark import SparkAttempt

    attempt = SparkAttempt(batch, learned.left_out, learned.reading)
    found, bad = attempt.rehearse(session_factory(_places(batch.operation, batch.work)))
    if found is not None:
        rows, columns, keys = found
        assert batch.table is not None
        key = batch.table.hoodie_table.config.record_key_fields
        return Rehearsed(rows, columns, key, keys)
    learned.files |= bad.files
    learned.files |= dict.fromkeys(bad.waiting, "too many bad rows in the files before it")
    learned.rows |= bad.rows
    learned.left_out |= bad.digests
    if bad.settings is not None:
        learned.reading = replace(bad.settings, keeps_bad_rows=False)
    return None


def _result(
    operation: Operation, found: Rehearsed, files: Sequence[ArrivedFile], learned: _Learned
) -> OperationResult:
    return OperationResult(
        operation.id,
        Outcome.SUCCEEDED,
        rows_written=found.rows,
        rows_set_aside=sum(len(rows) for rows in learned.rows.values()),
        source_files=len(files),
        source_bytes=sum(file.size_bytes for file in files),
        skipped=tuple(SkippedFile(*item) for item in learned.files.items()),
        notes=tuple(_row_notes(learned.rows)),
        audit=(found.to_json_object(),),
    )


def _row_notes(rows: Mapping[str, Sequence[BadRow]]) -> list[str]:
    return [
        f"{counted(len(some), 'row')} of {path}: {some[0]}" + (" ..." if len(some) > 1 else "")
        for path, some in rows.items()
    ]
