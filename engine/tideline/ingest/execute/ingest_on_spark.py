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
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.ingest_batch import IngestBatch, NoTableYetError
from tideline.ingest.execute.table_access import open_table
from tideline.ingest.sources.source import Measured, Source, SparkRows
from tideline.lake_table import LakeTable
from tideline.spark.source_files.landed_rows import (
    column_types,
    count_rows_and_keys,
    is_infrastructure_failure,
    new_columns,
)
from tideline.spark.source_files.sources import (
    SPARK_FAILURES,
    ClashingFilesError,
    UnreadableFilesError,
    failure_reason,
)
from tideline.spark.write.run import try_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Done = TypeVar("_Done")
_KEPT_ROWS_PER_FILE = 200_000


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

    def keep(self, session: SparkSession, uri: str) -> tuple[bool, BadInput]:
        """Put the rows of a commit that is not written into parquet files at `uri`, in the order of
        arrival; False where something is at fault, and what. The batch has a table."""
        kept, bad = self._tried(session, lambda session: self._keep(session, uri))
        return kept is not None, bad

    def _tried(
        self, session: SparkSession, attempt: Callable[[SparkSession], _Done]
    ) -> tuple[_Done | None, BadInput]:
        try:
            return attempt(session), BadInput()
        except NoTableYetError as error:
            raise self._explained(error) from error
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
        operation, work = self.batch.operation, self.batch.work
        table = self.batch.table or open_table(operation.table, operation.writer)
        rows = self._rows(session, table)
        if isinstance(error, ConfigError):
            return rows.misfits(self.batch.range)
        config = table.writer.config_for_rows(operation.table.write_properties) if table else None
        kind = WriteOperation.parse(work.write_operation)

        def try_rows(some: DataFrame) -> None:
            if table is None or config is None:
                some.write.format("noop").mode("overwrite").save()
            else:
                try_write(some, table.hoodie_table, kind, config)

        return rows.find_bad(self.batch.range, work.bad_rows_max, try_rows)

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

    def _rows(self, session: SparkSession, table: LakeTable | None) -> SparkRows:
        batch, target = self.batch, self.batch.operation.table
        config = table.hoodie_table.config if table is not None else None
        stated = {item.name.lower() for item in target.schema or ()}
        if batch.table is not None:
            stated |= batch.table.hoodie_table.config.declared_columns
        shape = replace(
            batch.shape(self.left_out),
            stated=frozenset(stated),
            keys=key_generator(table.hoodie_table) if table is not None else None,
            ordering=config.ordering_fields if config is not None and not batch.deletes else (),
        )
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
        assert table is not None
        batch.progress(f"reading {batch.words}")
        reader = self._rows(session, table)
        rows = reader.finished(reader.source(batch.range))
        row_count, key_count = count_rows_and_keys(rows, key_generator(table.hoodie_table))
        kind = WriteOperation.parse(batch.work.write_operation)
        config = table.writer.config_for_rows(batch.operation.table.write_properties)
        try_write(rows, table.hoodie_table, kind, config)
        return row_count, column_types(rows), key_count

    def _keep(self, session: SparkSession, uri: str) -> bool:
        batch, table = self.batch, self.batch.table
        assert table is not None
        batch.progress(f"reading {batch.words}")
        reader = self._rows(session, table)
        rows = reader.finished(reader.source(batch.range))
        config = table.writer.config_for_rows(batch.operation.table.write_properties)
        try_write(
            rows, table.hoodie_table, WriteOperation.parse(batch.work.write_operation), config
        )
        kept = rows.orderBy(ARRIVAL).write.option("maxRecordsPerFile", _KEPT_ROWS_PER_FILE)
        kept.parquet(uri)
        return True

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
