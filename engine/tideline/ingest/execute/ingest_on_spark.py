"""One try at an ingest through Spark: reading, transforming, marking deletes, fitting, writing; and
when it fails, finding out which files or rows are at fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.arrow_schema import arrow_schema
from tideline.ingest.execute.ingest_batch import IngestBatch, NoTableYetError
from tideline.ingest.execute.table_access import locate, open_table
from tideline.lake_table import LakeTable
from tideline.spark.source_files.bad_input import BadInput, find_bad_input, misfits
from tideline.spark.source_files.column_inference import Roles
from tideline.spark.source_files.intake import Intake
from tideline.spark.source_files.landed_rows import (
    column_types,
    count_rows_and_keys,
    is_infrastructure_failure,
    known_types,
    new_columns,
    struct_of,
)
from tideline.spark.source_files.sources import (
    SPARK_FAILURES,
    ClashingFilesError,
    SourceSettings,
    UnreadableFilesError,
    failure_reason,
    types_of,
)
from tideline.spark.write.run import try_write
from tideline.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class SparkAttempt:
    """One try at writing the batch without the rows `left_out`, which were found bad before.

    `reading` are the settings that they were found with.
    """

    batch: IngestBatch
    left_out: frozenset[int]
    reading: SourceSettings | None

    def run(self, session: SparkSession) -> tuple[CommitReport | None, BadInput]:
        """A report, or what is at fault."""
        return self._tried(session, self._write)

    def rehearse(
        self, session: SparkSession
    ) -> tuple[tuple[int, tuple[tuple[str, str], ...], int] | None, BadInput]:
        """Rows, columns with types and the number of record keys of a commit that is not written,
        or what is at fault. The batch has a table, if only one that stands in for it."""
        return self._tried(session, self._look)

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
        intake = self._intake(session, table)
        if isinstance(error, ConfigError):
            return BadInput(misfits(intake, self.batch.paths))
        config = table.writer.config_for_rows(operation.table.write_properties) if table else None
        kind = WriteOperation.parse(work.write_operation)

        def try_rows(rows: DataFrame) -> None:
            if table is None or config is None:
                rows.write.format("noop").mode("overwrite").save()
            else:
                try_write(rows, table.hoodie_table, kind, config)

        return find_bad_input(
            intake, self.batch.paths, rows_max=work.bad_rows_max, try_rows=try_rows
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

    def _intake(self, session: SparkSession, table: LakeTable | None) -> Intake:
        batch, work = self.batch, self.batch.work
        config = table.hoodie_table.config if table is not None else None
        return Intake(
            session,
            self.reading or self._settings(),
            batch.table_schema(),
            transform=work.transform,
            delete_when=work.delete_when,
            fits=batch.fits,
            only_keys=batch.deletes,
            keys=key_generator(table.hoodie_table) if table is not None else None,
            ordering=config.ordering_fields if config is not None and not batch.deletes else (),
            left_out=self.left_out,
        )

    def _write(self, session: SparkSession) -> CommitReport:
        batch = self.batch
        batch.progress(f"reading {counted(len(batch.files), 'file')}")
        intake = self._intake(session, batch.table)
        source = intake.source(batch.paths)
        rows = intake.finished(source)
        if intake.schema is None:
            self._require_rows(rows)
        if not self._remembers_columns:
            return batch.write(rows)
        before = batch.checkpoint.columns if batch.checkpoint else ()
        new = new_columns(column_types(source), before)
        report = batch.write(rows, (*before, *new))
        inferred = tuple(f"{name} {kind} in the source files" for name, kind in new)
        return replace(report, columns_added=(*report.columns_added, *inferred))

    def _look(self, session: SparkSession) -> tuple[int, tuple[tuple[str, str], ...], int]:
        batch, table = self.batch, self.batch.table
        assert table is not None
        batch.progress(f"reading {counted(len(batch.files), 'file')}")
        intake = self._intake(session, table)
        rows = intake.finished(intake.source(batch.paths))
        row_count, key_count = count_rows_and_keys(rows, key_generator(table.hoodie_table))
        kind = WriteOperation.parse(batch.work.write_operation)
        config = table.writer.config_for_rows(batch.operation.table.write_properties)
        try_write(rows, table.hoodie_table, kind, config)
        return row_count, column_types(rows), key_count

    def _require_rows(self, rows: DataFrame) -> None:
        """Raise InvalidDataError where the first batch cannot decide what the table will be."""
        if self.batch.deletes:
            raise NoTableYetError("it deletes, and there is nothing to delete from yet")
        # A row, because Spark refuses to read text where no column is wanted but bad records.
        if self.batch.work.file_format.is_text and not rows.head(1):
            raise NoTableYetError(
                "the first files have no rows to infer the types of the columns from: declare "
                "spec.schema"
            )

    @property
    def _remembers_columns(self) -> bool:
        """Text that is transformed keeps the types its first batch was read with."""
        work = self.batch.work
        return work.file_format.is_text and work.transform is not None and not work.source_schema

    def _settings(self) -> SourceSettings:
        work = self.batch.work
        checkpoint = self.batch.checkpoint
        if self._remembers_columns:
            known = known_types(checkpoint.columns if checkpoint else ())
        else:
            known = types_of(self.batch.table_schema())
        declared = struct_of(arrow_schema(work.source_schema)) if work.source_schema else None
        target, table = self.batch.operation.table, self.batch.table
        stated: set[str] = set()
        if not self._remembers_columns:
            stated |= {item.name.lower() for item in target.schema or ()}
            stated |= table.hoodie_table.config.declared_columns if table is not None else set()
        return SourceSettings(
            locate(work.landing),
            work.file_format.value,
            work.options,
            declared,
            known,
            Roles.of(target.record_key, target.ordering),
            inferred=frozenset(known.keys() - stated),
        )
