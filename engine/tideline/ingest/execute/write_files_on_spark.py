"""Source files that a person names, written through Spark.

They are checked as landing files are: bad ones fail the write, or are passed over; rows fail their
file, or are kept in `_quarantine/` next to the files before the commit (see
`tideline.ingest.sources.files.quarantine`). There is no checkpoint: the same files written again
are written again, and a file that was passed over is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tideline.bad_input import BadInput, BadRow
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.write_files import SourceWrite, SourceWritten
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileListing
from tideline.ingest.sources.files.quarantine import quarantine_rows
from tideline.lake_table import LakeTable
from tideline.spark.source_files.bad_input import find_bad_input, misfits
from tideline.spark.source_files.column_inference import Roles
from tideline.spark.source_files.intake import Intake
from tideline.spark.source_files.landed_rows import is_infrastructure_failure
from tideline.spark.source_files.sources import (
    SPARK_FAILURES,
    ClashingFilesError,
    SourceSettings,
    UnreadableFilesError,
    failure_reason,
    types_of,
)
from tideline.spark.write.run import try_write
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class WriteTarget(Protocol):
    """A table, and what is done with the rows."""

    @property
    def uri(self) -> str: ...

    def intake(self, spark: SparkSession, wanted: SourceWrite, folder: StoreLocation) -> Intake:
        """How the files become rows that it takes."""

    def write(self, rows: DataFrame) -> CommitReport:
        """One commit. Raises InvalidDataError and ConfigError for what does not fit."""

    def try_rows(self, rows: DataFrame) -> None:
        """Do with rows all that a write does, short of writing. Raises as `write`."""


@dataclass(frozen=True, slots=True)
class HudiTarget:
    """See `WriteTarget`."""

    table: LakeTable
    wanted: SourceWrite

    @property
    def uri(self) -> str:
        return self.table.uri

    def intake(self, spark: SparkSession, wanted: SourceWrite, folder: StoreLocation) -> Intake:
        hoodie = self.table.hoodie_table
        operation, config = self.table.writer.planned_write(wanted.operation, wanted.write_options)
        deletes = operation is WriteOperation.DELETE
        schema = hoodie.schemas.newest(self.table.timeline())
        known = types_of(schema)
        return Intake(
            spark,
            SourceSettings(
                folder,
                wanted.file_format,
                wanted.reading,
                known=known,
                roles=Roles.of(hoodie.config.record_key_fields, hoodie.config.ordering_fields),
                inferred=frozenset(known.keys() - hoodie.config.declared_columns),
            ),
            schema,
            fits=not deletes and config.partial_update_columns is None,
            only_keys=deletes,
            keys=key_generator(hoodie),
            ordering=() if deletes else hoodie.config.ordering_fields,
        )

    def write(self, rows: DataFrame) -> CommitReport:
        wanted = self.wanted
        return self.table.write(
            rows, wanted.operation, options=wanted.write_options, token=wanted.token
        )

    def try_rows(self, rows: DataFrame) -> None:
        wanted = self.wanted
        operation, config = self.table.writer.planned_write(wanted.operation, wanted.write_options)
        try_write(rows, self.table.hoodie_table, operation, config)


def write_on_spark(
    target: WriteTarget,
    spark: SparkSession,
    wanted: SourceWrite,
    folder: StoreLocation,
    found: Sequence[str],
) -> SourceWritten:
    """Write the files `found` in the folder. Raises as `write_sources` does."""
    paths = list(found)
    skipped: dict[str, str] = {}
    rows: dict[str, tuple[BadRow, ...]] = {}
    intake = target.intake(spark, wanted, folder)
    while paths:
        try:
            return SourceWritten(target.write(intake.rows(paths)), skipped, rows)
        except (InvalidDataError, ConfigError, *SPARK_FAILURES) as error:
            bad = _find_bad_input(target, wanted, intake, paths, error)
        if bad.files and not wanted.skips_bad_files:
            raise UnreadableFilesError(
                {f"{folder.uri}/{path}": why for path, why in bad.files.items()}
            )
        _keep_rows(folder, bad)
        skipped |= bad.files
        rows |= bad.rows
        if bad.reading is not None:
            intake = intake.without(bad.digests, bad.reading)
        left = {*bad.files, *bad.waiting}
        paths = [path for path in paths if path not in left]
        skipped |= dict.fromkeys(bad.waiting, "too many bad rows in the files before it")
    path, reason = next(iter(skipped.items()))
    raise InvalidDataError(f"no source file can be taken in: {path}: {reason}", path=folder.uri)


def _find_bad_input(
    target: WriteTarget, wanted: SourceWrite, intake: Intake, paths: list[str], error: Exception
) -> BadInput:
    """What is at fault. Raises the error itself where no file is."""
    if isinstance(error, SPARK_FAILURES) and is_infrastructure_failure(error):
        message = f"Spark could not do its work: {failure_reason(error)}"
        raise StorageUnavailableError(message, table=target.uri) from error
    if isinstance(error, UnreadableFilesError) and not isinstance(error, ClashingFilesError):
        return BadInput(error.reasons)
    if isinstance(error, ConfigError):
        bad = BadInput(misfits(intake, paths))
    else:
        bad = find_bad_input(intake, paths, rows_max=wanted.bad_rows_max, try_rows=target.try_rows)
    if bad.files or bad.digests - intake.left_out:
        return bad
    if isinstance(error, SPARK_FAILURES):
        message = f"the rows cannot be written: {failure_reason(error)}"
        raise InvalidDataError(message, table=target.uri) from error
    raise error


def _keep_rows(folder: StoreLocation, bad: BadInput) -> None:
    store = folder.open()
    for path, found in bad.rows.items():
        info = store.head(path)
        if info is None:
            raise InvalidDataError("source file has gone", path=f"{folder.uri}/{path}")
        file = ArrivedFile(path, info.size_bytes, info.modified_ms)
        quarantine_rows(store, file, [row.to_json_object() for row in found], FileListing())
