"""What would become of a range of a source, without writing anything: neither rows nor notes. Where
it is empty, whether Spark understands the SQL of an ingest.

The files are read as an ingest reads them, and checked where they do not fit. Where there is no
table yet, one in memory stands in for it, so that rows without a key are found as well. Whether
rows insert or update is not looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tideline.bad_input import BadInput, BadRow
from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import evolve
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.column_type import plain_name
from tideline.ingest.execute.in_process import read_in_process, require_spark
from tideline.ingest.execute.ingest import row_notes
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.ingest_table import IngestTable
from tideline.ingest.execute.open_ingest_table import open_ingest_table
from tideline.ingest.execute.table_access import Progress, SessionFactory
from tideline.ingest.locate import locate
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.kinds import kind_named
from tideline.ingest.sources.source import ForSpark, Range, Source
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    import pyarrow as pa


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
    reading: Any = None

    def add(self, bad: BadInput, part: str) -> None:
        self.files |= bad.files
        self.files |= dict.fromkeys(bad.waiting, f"too many bad rows in the {part}s before it")
        self.rows |= bad.rows
        self.left_out |= bad.digests
        if bad.reading is not None:
            self.reading = bad.reading


def rehearse_ingest(
    operation: Operation,
    work: IngestRange,
    *,
    session_factory: SessionFactory,
    progress: Progress,
) -> OperationResult:
    """Say what an ingest would do with `work.range`; the audit has what a `Rehearsed` says.

    Raises what an ingest raises: InvalidDataError for a part where bad ones fail, ConfigError for
    a transform or a read option that cannot be.
    """
    if not work.range.names:
        _check_sql(operation, work, session_factory)
        return OperationResult(operation.id, Outcome.NOTHING)
    table = open_ingest_table(operation)
    checkpoints, stand_in = table.checkpoints(work), table.stand_in()
    source = kind_named(work.source.kind).open(work.source)
    try:
        return _rehearse(operation, work, stand_in, checkpoints, source, session_factory, progress)
    finally:
        source.release()


def _rehearse(
    operation: Operation,
    work: IngestRange,
    stand_in: IngestTable,
    checkpoints: Mapping[str, Checkpoint],
    source: Source,
    session_factory: SessionFactory,
    progress: Progress,
) -> OperationResult:
    part = work.source.part
    learned = _Learned()
    left = work.range
    needed: ForSpark | None = None
    while left.names:
        batch = IngestBatch(operation, work, left, stand_in, checkpoints, None, progress)
        done = _in_process(source, batch, learned.left_out) if needed is None else needed
        if isinstance(done, ForSpark):
            needed = done
            require_spark(needed, work.source)
            done = _on_spark(source, batch, learned, session_factory)
        if isinstance(done, BadInput):
            learned.add(done, part)
        if isinstance(done, Rehearsed):
            return _result(operation, done, left, learned)
        if learned.files and not work.quarantines:
            name, reason = next(iter(learned.files.items()))
            raise InvalidDataError(f"source {part} cannot be taken in: {reason}", path=name)
        left = left.only([name for name in left.names if name not in learned.files])
    return _result(operation, Rehearsed(0, (), (), 0), left, learned)


def _check_sql(operation: Operation, work: IngestRange, session_factory: SessionFactory) -> None:
    if not work.has_sql:
        return
    require_spark(ForSpark("SQL is Spark's"))
    from tideline.spark.source_files.landed_rows import check_sql, struct_of

    declared = work.source.columns
    columns = struct_of(arrow_schema(declared)) if declared else None
    try:
        check_sql(
            session_factory(_places(operation, work)), work.transform, work.delete_when, columns
        )
    except ConfigError as error:
        said = f"ingest {work.name!r}: {error.message}"
        raise ConfigError(said, table=operation.table.name, value=error.value) from error


def _places(operation: Operation, work: IngestRange) -> list[StoreLocation]:
    return [locate(place) for place in (operation.table.location, *work.source.places)]


def _in_process(
    source: Source, batch: IngestBatch, left_out: frozenset[int]
) -> Rehearsed | BadInput | ForSpark:
    """What the range would give, read by this process; or what of it is bad; or why it is for
    Spark, which also says what does not fit."""
    try:
        found = read_in_process(source, batch, left_out)
        if isinstance(found, ForSpark):
            return found
        if found.bad.files or found.bad.digests - left_out:
            return found.bad
        known = batch.table_schema()
        if known is not None and not batch.deletes:
            evolve(known, found.table.schema, missing=MissingColumns.NULL)
        return _counted_in_arrow(found.table, batch.table)
    except (InvalidDataError, ConfigError) as error:
        return ForSpark("something does not fit", error)


def _counted_in_arrow(rows: pa.Table, table: IngestTable) -> Rehearsed | ForSpark:
    own = {name.lower(): name for name in rows.column_names}
    needed = (*table.record_key, *table.ordering)
    if any(name.lower() not in own for name in needed):
        return ForSpark("a key or ordering column is nested, or is not there")
    if any(rows[own[name.lower()]].null_count for name in needed):
        return ForSpark("a key or ordering column has nulls")
    key = [own[name.lower()] for name in table.record_key]
    keys = rows.select(key).group_by(key).aggregate([]).num_rows if key else rows.num_rows
    columns = tuple((item.name, str(item.type)) for item in rows.schema if item.name != ARRIVAL)
    return Rehearsed(rows.num_rows, columns, table.record_key, keys)


def _on_spark(
    source: Source, batch: IngestBatch, learned: _Learned, session_factory: SessionFactory
) -> Rehearsed | BadInput:
    """What the range would give, or what more of it is bad."""
    from tideline.ingest.execute.ingest_on_spark import SparkAttempt

    attempt = SparkAttempt(source, batch, learned.left_out, learned.reading)
    found, bad = attempt.rehearse(session_factory(_places(batch.operation, batch.work)))
    if found is None:
        return bad
    rows, columns, keys = found
    return Rehearsed(rows, columns, batch.table.record_key, keys)


def _result(
    operation: Operation, found: Rehearsed, taken: Range, learned: _Learned
) -> OperationResult:
    return OperationResult(
        operation.id,
        Outcome.SUCCEEDED,
        rows_written=found.rows,
        rows_set_aside=sum(len(rows) for rows in learned.rows.values()),
        source_files=len(taken.names),
        source_bytes=taken.size_bytes,
        skipped=tuple(SkippedFile(*item) for item in learned.files.items()),
        notes=tuple(row_notes(learned.rows)),
        audit=(found.to_json_object(),),
    )
