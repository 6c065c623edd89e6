"""One try at an ingest through Spark: reading, transforming, marking deletes, fitting, writing; and
when it fails, finding what of it is at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tideline.bad_input import BadInput
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.ingest.execute.ingest_batch import IngestBatch, NoTableYetError
from tideline.ingest.execute.ingest_table import IngestTable
from tideline.ingest.sources.source import Measured, Source, SparkRows
from tideline.spark.source_files.landed_rows import (
    column_types,
    is_infrastructure_failure,
    new_columns,
)
from tideline.spark.source_files.row_by_row import why_not_row_by_row
from tideline.spark.source_files.sources import (
    SPARK_FAILURES,
    ClashingFilesError,
    UnreadableFilesError,
    failure_reason,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Done = TypeVar("_Done")
_KEPT_ROWS_PER_FILE = 200_000


class NotRowByRowError(ConfigError):
    """What rows come down to depends on how they were divided into commits, or on when."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows that were put into files: in the order of arrival where a transform has kept that."""

    is_ordered: bool


@dataclass(frozen=True, slots=True)
class SparkAttempt:
    """One try at writing the batch of a source without the rows `left_out`, which were found bad
    before, by `reading` so."""

    source: Source
    batch: IngestBatch
    left_out: frozenset[int]
    reading: Any

    def run(self, session: SparkSession) -> tuple[tuple[CommitReport, Measured] | None, BadInput]:
        """A report and what reading showed, or what is at fault."""
        return self._tried(session, self._write)

    def rehearse(
        self, session: SparkSession
    ) -> tuple[tuple[int, tuple[tuple[str, str], ...], int] | None, BadInput]:
        """Rows, columns with types and the number of record keys of a commit that is not written,
        or what is at fault. The batch has a table, if only one that stands in for it."""
        return self._tried(session, self._look)

    def keep(self, session: SparkSession, uri: str) -> tuple[KeptRows | None, BadInput]:
        """Put the rows of a commit that is not written into parquet files at `uri`, or say what is
        at fault. The batch has a table. Raises NotRowByRowError where SQL of the ingest would make
        other rows of them in another commit."""
        return self._tried(session, lambda session: self._keep(session, uri))

    def _tried(
        self, session: SparkSession, attempt: Callable[[SparkSession], _Done]
    ) -> tuple[_Done | None, BadInput]:
        try:
            return attempt(session), BadInput()
        except NoTableYetError as error:
            raise self._explained(error) from error
        except NotRowByRowError:
            raise
        except (InvalidDataError, ConfigError, *SPARK_FAILURES) as error:
            self._refuse_infrastructure(error)
            self.batch.progress("looking for the files at fault")
            try:
                bad = self._find_bad_input(session, error)
            except SPARK_FAILURES as failure:
                self._refuse_infrastructure(failure)
                bad = BadInput()
            if bad.files or bad.digests - self.left_out:
                return None, bad
            raise self._explained(error) from error

    def _find_bad_input(self, session: SparkSession, error: Exception) -> BadInput:
        if isinstance(error, UnreadableFilesError) and not isinstance(error, ClashingFilesError):
            return BadInput(error.reasons)
        work, table = self.batch.work, self.batch.table.found()
        rows = self._rows(session, table)
        if isinstance(error, ConfigError):
            return rows.misfits(self.batch.range)
        return rows.find_bad(
            self.batch.range, work.bad_rows_max, lambda some: table.try_rows(some, work)
        )

    def _refuse_infrastructure(self, error: Exception) -> None:
        if isinstance(error, SPARK_FAILURES) and is_infrastructure_failure(error):
            raise StorageUnavailableError(
                f"Spark could not do its work: {failure_reason(error)}",
                table=self.batch.operation.table.location.uri,
            ) from error

    def _explained(self, error: Exception) -> Exception:
        """What to raise where no file is at fault."""
        named = f"ingest {self.batch.work.name!r}: "
        uri = self.batch.operation.table.location.uri
        match error:
            case InvalidDataError():
                return InvalidDataError(f"{named}{error.message}", table=uri, value=error.value)
            case ConfigError():
                return ConfigError(f"{named}{error.message}", table=uri, value=error.value)
        text = f"{named}the rows cannot be written: {failure_reason(error)}"
        return InvalidDataError(text, table=uri)

    def _rows(self, session: SparkSession, table: IngestTable) -> SparkRows:
        batch = self.batch
        stated = frozenset(item.name.lower() for item in batch.operation.table.schema or ())
        shape = replace(batch.shape(self.left_out), stated=stated)
        shape = table.on_spark(shape, deletes=batch.deletes)
        return self.source.on_spark(session, shape, self.reading)

    def _write(self, session: SparkSession) -> tuple[CommitReport, Measured]:
        batch = self.batch
        batch.progress(f"reading {batch.words}")
        reader = self._rows(session, batch.table)
        source = reader.source(batch.range)
        rows = reader.finished(source)
        if batch.table_schema() is None:
            self._require_rows(rows, reader)
        measured = reader.measured(batch.range)
        batch = replace(batch, range=measured.taken)
        if not reader.remembers_columns:
            return batch.write(rows), measured
        before = batch.checkpoint.columns if batch.checkpoint else ()
        new = new_columns(column_types(source), before)
        report = batch.write(rows, (*before, *new))
        inferred = tuple(f"{name} {kind} in the source files" for name, kind in new)
        return replace(report, columns_added=(*report.columns_added, *inferred)), measured

    def _look(self, session: SparkSession) -> tuple[int, tuple[tuple[str, str], ...], int]:
        batch, table = self.batch, self.batch.table
        batch.progress(f"reading {batch.words}")
        reader = self._rows(session, table)
        rows = reader.finished(reader.source(batch.range))
        row_count, key_count = table.count_keys(rows)
        table.try_rows(rows, batch.work)
        return row_count, column_types(rows), key_count

    def _keep(self, session: SparkSession, uri: str) -> KeptRows:
        batch, table = self.batch, self.batch.table
        batch.progress(f"reading {batch.words}")
        reader = self._rows(session, table)
        source = reader.source(batch.range)
        rows = reader.finished(source)
        reason = why_not_row_by_row(rows, source) if batch.work.has_sql else None
        if reason is not None:
            raise NotRowByRowError(reason)
        table.try_rows(rows, batch.work)
        kept = KeptRows(is_ordered=ARRIVAL in rows.columns)
        found = rows.orderBy(ARRIVAL) if kept.is_ordered else rows
        found.write.option("maxRecordsPerFile", _KEPT_ROWS_PER_FILE).parquet(uri)
        return kept

    def _require_rows(self, rows: DataFrame, reader: SparkRows) -> None:
        """Raise InvalidDataError where the first batch cannot decide what the table will be."""
        if self.batch.deletes:
            raise NoTableYetError("it deletes, and there is nothing to delete from yet")
        # A row: Spark refuses to read text without a column but that of bad records.
        if not reader.is_typed and not rows.head(1):
            raise NoTableYetError(
                "the first files have no rows to infer the types of the columns from: declare "
                "spec.schema"
            )
