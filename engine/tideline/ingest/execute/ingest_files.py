"""One ingest operation: landed files become one commit that also says they are in.

1. Read the table's checkpoint. If it is not the one the plan was made with, another process was
   first: there is nothing to do.
2. List the landing prefix. Files that changed or went since the plan are left for the next one.
3. Read the files in order of arrival; transform; mark deletes; fit the table's columns.
4. Write, with the new checkpoint in the commit's extra metadata. Rows and checkpoint become
   visible together or not at all.
5. Should the batch fail, find the files, or the rows, at fault
   (`tideline.spark.landing.judgement`). Rows are set aside where that is allowed. Bad files: Fail
   stops, naming them; Quarantine notes each next to the landing files. Then go on with the rest
   from
   3. Both are written before the commit: see `tideline.ingest.landing.quarantine` for what dying in
   between leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tideline.clock import Clock
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError
from tideline.hudi.index.declaration import keep_unique
from tideline.hudi.index.uniqueness import IN_TABLE
from tideline.hudi.write.key_spelling import key_generator
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.arrow_schema import arrow_schema
from tideline.ingest.execute.table_access import (
    Progress,
    SessionFactory,
    create_declared_table,
    locate,
    open_table,
)
from tideline.ingest.execute.table_checkpoints import current_checkpoints, require_generation
from tideline.ingest.landing.checkpoint import (
    INGEST_KEY,
    Checkpoint,
    advance,
    checkpoint_metadata,
)
from tideline.ingest.landing.continuation import landing_prefix, newest_of
from tideline.ingest.landing.landed_file import QUARANTINE, Landing, LandingFile, list_landing
from tideline.ingest.landing.quarantine import quarantine, quarantine_rows, release_rows
from tideline.ingest.operation.operation import IngestFiles, Operation
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.lake_table import LakeTable
from tideline.spark.landing.bad_rows import BadRow
from tideline.spark.landing.intake import Intake
from tideline.spark.landing.judgement import Verdict, judge, misfits
from tideline.spark.landing.landed_rows import (
    column_types,
    is_infrastructure_failure,
    known_types,
    struct_of,
)
from tideline.spark.landing.sources import (
    SPARK_FAILURES,
    ClashingFilesError,
    SourceSettings,
    UnreadableFilesError,
    failure_reason,
    types_of,
)
from tideline.spark.write.run import try_write
from tideline.storage.object_store import ObjectInfo, ObjectStore
from tideline.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OPERATION_KEY = "tideline.operation"
FILES_KEY = "tideline.ingest.files"
DELETE = "delete"
_FILES_NAMED_MAX = 1_000
_PATHS_NAMED_MAX = 3
_PARTIAL_UPDATE = "tideline.write.partial.update.columns"


class _NoTableYetError(InvalidDataError):
    """The batch is no start for a table; no file is at fault."""


@dataclass(slots=True)
class _Gathered:
    """What attempts have learned so far; `rows` were set aside, by path."""

    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: dict[str, tuple[BadRow, ...]] = field(default_factory=dict)
    reading: SourceSettings | None = None

    @property
    def left_out(self) -> frozenset[int]:
        return frozenset(row.digest for rows in self.rows.values() for row in rows)


def execute_ingest(
    operation: Operation,
    work: IngestFiles,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    """Carry out one ingest; see the module's text.

    Raises InvalidDataError naming the file or the rows, ConfigError, ConflictError,
    StorageUnavailableError.
    """
    table = open_table(operation.table, operation.writer)
    checkpoints = current_checkpoints(table, work.name, work.former_name)
    checkpoint = newest_of(checkpoints, work.name, work.former_name)
    generation = checkpoint.generation if checkpoint else 0
    if generation != work.generation:
        message = f"the checkpoint is at generation {generation}, planned with {work.generation}"
        return OperationResult(operation.id, Outcome.NOTHING, message)
    landing = list_landing(locate(work.landing).open(), work.file_format)
    gathered = _Gathered()
    files = _still_there(work.files, landing, checkpoint, gathered)
    setting_aside = _SettingAside(work, clock, gathered)
    while files:
        attempt = _Attempt(
            operation, work, files, table, checkpoints, landing, progress, gathered.left_out,
            gathered.reading,
        )  # fmt: skip
        session = session_factory((locate(operation.table.location), locate(work.landing)))
        report, verdict = attempt.run(session)
        if report is not None:
            return _result(operation, report, files, gathered)
        progress("setting aside what cannot be taken in")
        files = setting_aside.apply(verdict, files)
    return OperationResult(
        operation.id,
        Outcome.NOTHING,
        "no file was taken in",
        skipped=tuple(gathered.skipped),
        notes=tuple(gathered.notes),
    )


def _still_there(
    planned: tuple[LandingFile, ...],
    landing: Landing,
    checkpoint: Checkpoint | None,
    gathered: _Gathered,
) -> tuple[LandingFile, ...]:
    present = {file.identity for file in landing.files}
    files = tuple(file for file in planned if file.identity in present)
    if len(files) < len(planned):
        gathered.notes.append(
            f"{counted(len(planned) - len(files), 'file')} changed or removed since the plan"
        )
    return tuple(file for file in files if checkpoint is None or not checkpoint.has_taken(file))


@dataclass(frozen=True, slots=True)
class _SettingAside:
    """What is done about bad files and rows."""

    work: IngestFiles
    clock: Clock
    gathered: _Gathered

    def apply(self, verdict: Verdict, files: tuple[LandingFile, ...]) -> tuple[LandingFile, ...]:
        """Set aside what the verdict names; the files to go on with. Raises InvalidDataError where
        the policy is to fail."""
        if verdict.files and not self.work.quarantines:
            path, reason = next(iter(verdict.files.items()))
            others = [other for other in verdict.files if other != path]
            more = f" (and {counted(len(others), 'more file')}: {_listed(others)})"
            raise InvalidDataError(
                f"source file cannot be taken in: {reason}{more if others else ''}",
                path=f"{self.work.landing.uri}/{path}",
            )
        gathered = self.gathered
        if verdict.waiting:
            waiting = counted(len(verdict.waiting), "file")
            gathered.notes.append(f"{waiting} with bad rows left for the next commit")
        kept = []
        for file in files:
            if file.path in verdict.files:
                self._set_file_aside(file, verdict.files[file.path])
            elif file.path in verdict.rows and not self._keep_rows(file, verdict.rows[file.path]):
                continue
            elif file.path not in verdict.waiting:
                kept.append(file)
        if verdict.settings is not None:
            gathered.reading = replace(verdict.settings, keeps_bad_rows=False)
        return tuple(kept)

    def _set_file_aside(self, file: LandingFile, reason: str) -> None:
        store = locate(self.work.landing).open()
        self.gathered.rows.pop(file.path, None)
        if self._is_unchanged(store, file):
            quarantine(store, file, reason=reason, now_ms=self.clock.now_ms())
            release_rows(store, file, list_landing(store, self.work.file_format))
            self.gathered.skipped.append(SkippedFile(file.path, reason))

    def _keep_rows(self, file: LandingFile, rows: tuple[BadRow, ...]) -> bool:
        store = locate(self.work.landing).open()
        if not self._is_unchanged(store, file):
            return False
        # Listed again: an earlier listing of this very run may have found other rows.
        landing = list_landing(store, self.work.file_format)
        quarantine_rows(store, file, [row.to_json_object() for row in rows], landing)
        self.gathered.rows[file.path] = rows
        return True

    def _is_unchanged(self, store: ObjectStore, file: LandingFile) -> bool:
        info = store.head(file.path)
        if info is not None and _is_same(info, file):
            return True
        self.gathered.notes.append(f"{file.path} changed while it was read; left for later")
        return False


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:_PATHS_NAMED_MAX]) + (", ..." if len(paths) > _PATHS_NAMED_MAX else "")


def _is_same(info: ObjectInfo, file: LandingFile) -> bool:
    # S3 gives milliseconds in a listing, but only seconds about a single object.
    same_time = info.modified_ms // 1000 == file.modified_ms // 1000
    return same_time and info.size_bytes == file.size_bytes


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One try at writing `files` as one commit."""

    operation: Operation
    work: IngestFiles
    files: tuple[LandingFile, ...]
    table: LakeTable | None
    checkpoints: Mapping[str, Checkpoint]
    landing: Landing
    progress: Progress
    left_out: frozenset[int]
    reading: SourceSettings | None

    def run(self, session: SparkSession) -> tuple[CommitReport | None, Verdict]:
        """A report, or what is at fault."""
        try:
            return self._write(session), Verdict()
        except _NoTableYetError as error:
            raise self._explained(error) from error
        except (InvalidDataError, ConfigError, *SPARK_FAILURES) as error:
            self._refuse_infrastructure(error)
            self.progress("looking for the files at fault")
            try:
                verdict = self._judge(session, error)
            except SPARK_FAILURES as failure:
                self._refuse_infrastructure(failure)
                verdict = Verdict()
            if verdict.files or verdict.digests - self.left_out:
                return None, verdict
            raise self._explained(error) from error

    def _judge(self, session: SparkSession, error: Exception) -> Verdict:
        if isinstance(error, UnreadableFilesError) and not isinstance(error, ClashingFilesError):
            return Verdict(error.reasons)
        table = self.table or open_table(self.operation.table, self.operation.writer)
        intake = self._intake(session, table)
        if isinstance(error, ConfigError):
            return Verdict(misfits(intake, self._paths))
        config = (
            table.writer.config_for_rows(self.operation.table.write_properties) if table else None
        )
        kind = WriteOperation.parse(self.work.write_operation)

        def try_rows(rows: DataFrame) -> None:
            if table is None or config is None:
                rows.write.format("noop").mode("overwrite").save()
            else:
                try_write(rows, table.hoodie_table, kind, config)

        return judge(intake, self._paths, rows_max=self.work.bad_rows_max, try_rows=try_rows)

    def _refuse_infrastructure(self, error: Exception) -> None:
        if isinstance(error, SPARK_FAILURES) and is_infrastructure_failure(error):
            raise StorageUnavailableError(
                f"Spark could not do its work: {failure_reason(error)}",
                table=self.operation.table.location.uri,
            ) from error

    def _explained(self, error: Exception) -> Exception:
        """What to raise where no file is at fault."""
        named = f"ingest {self.work.name!r}: "
        uri = self.operation.table.location.uri
        match error:
            case InvalidDataError():
                return InvalidDataError(f"{named}{error.message}", table=uri, value=error.value)
            case ConfigError():
                return ConfigError(f"{named}{error.message}", table=uri, value=error.value)
        text = f"{named}the rows cannot be written: {failure_reason(error)}"
        return InvalidDataError(text, table=uri)

    @property
    def _paths(self) -> list[str]:
        return [file.path for file in self.files]

    def _intake(self, session: SparkSession, table: LakeTable | None) -> Intake:
        work, target = self.work, self.operation.table
        deletes = work.write_operation == DELETE
        config = table.hoodie_table.config if table is not None else None
        return Intake(
            session,
            self.reading or self._settings(),
            self._table_schema(),
            transform=work.transform,
            delete_when=work.delete_when,
            fits=not deletes and _PARTIAL_UPDATE not in target.write_properties,
            only_keys=deletes,
            keys=key_generator(table.hoodie_table) if table is not None else None,
            ordering=config.ordering_fields if config is not None and not deletes else (),
            left_out=self.left_out,
        )

    def _write(self, session: SparkSession) -> CommitReport:
        work, target = self.work, self.operation.table
        self.progress(f"reading {counted(len(self.files), 'file')}")
        intake = self._intake(session, self.table)
        source = intake.source(self._paths)
        rows = intake.finished(source)
        schema = intake.schema
        if schema is None:
            self._require_rows(rows)
        columns = column_types(source) if self._remembers_columns else ()
        writer = self.operation.writer
        table = self.table or open_table(target, writer) or create_declared_table(target, writer)
        self.progress(f"writing {counted(len(self.files), 'file')}")
        notes = self._keep_uniqueness(table) if target.unique_in_table else ()
        report = table.write(
            rows,
            operation=work.write_operation,
            extra_metadata=self._metadata(columns),
            options=target.write_properties,
            require=lambda now: require_generation(table, now, work),
        )
        return replace(report, notes=(*notes, *report.notes))

    def _keep_uniqueness(self, table: LakeTable) -> tuple[str, ...]:
        """Have the table say what the spec does, once the settings of the write are accepted.

        Before the write, so that a death in between leaves no rows without that statement; writers
        under way that look for keys in partitions conflict, and are safe to repeat.
        """
        options = self.operation.table.write_properties
        _, config = table.writer.planned_write(self.work.write_operation, options)
        kind = config.index.type
        if not keep_unique(table.hoodie_table, kind, config.lock_timing):
            return ()
        return (f"the table now states that its keys are {IN_TABLE} ({kind})",)

    def _require_rows(self, rows: DataFrame) -> None:
        """Raise InvalidDataError where the first batch cannot decide what the table will be."""
        if self.work.write_operation == DELETE:
            raise _NoTableYetError("it deletes, and there is nothing to delete from yet")
        if self.work.file_format.is_text and rows.isEmpty():
            raise _NoTableYetError(
                "the first files have no rows to infer the types of the columns from: declare "
                "spec.schema"
            )

    @property
    def _remembers_columns(self) -> bool:
        """Text that is transformed keeps the types its first batch was read with."""
        work = self.work
        return work.file_format.is_text and work.transform is not None and not work.source_schema

    def _settings(self) -> SourceSettings:
        work = self.work
        checkpoint = self._checkpoint
        known = {}
        if self._remembers_columns:
            known = known_types(checkpoint.columns if checkpoint else ())
        elif work.file_format.is_text:
            known = types_of(self._table_schema())
        declared = struct_of(arrow_schema(work.source_schema)) if work.source_schema else None
        return SourceSettings(
            locate(work.landing), work.file_format.value, work.options, declared, known
        )

    def _table_schema(self) -> pa.Schema | None:
        if self.table is not None:
            schema = self.table.hoodie_table.table_schema(self.table.timeline())
            if schema is not None:
                return schema
        declared = self.operation.table.schema
        return arrow_schema(declared) if declared else None

    def _metadata(self, columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
        work = self.work
        advanced = replace(
            advance(self._checkpoint, self.landing, self.files),
            prefix=landing_prefix(work.landing.uri, self.operation.table.location.uri),
            took_over=self._took_over,
        )
        if columns:
            advanced = replace(advanced, columns=columns)
        if work.once_number is not None and self._drains(advanced):
            advanced = replace(advanced, drained=work.once_number)
        return {
            **checkpoint_metadata({**self.checkpoints, work.name: advanced}),
            INGEST_KEY: work.name,
            OPERATION_KEY: self.operation.id,
            FILES_KEY: json.dumps(
                self._paths[:_FILES_NAMED_MAX], ensure_ascii=False, separators=(",", ":")
            ),
        }

    @property
    def _checkpoint(self) -> Checkpoint | None:
        return newest_of(self.checkpoints, self.work.name, self.work.former_name)

    @property
    def _took_over(self) -> str:
        own = self.checkpoints.get(self.work.name)
        if self._checkpoint is not own:
            return self.work.former_name
        return own.took_over if own is not None else ""

    def _drains(self, advanced: Checkpoint) -> bool:
        return all(advanced.has_taken(file) for file in self.landing.files)


def _result(
    operation: Operation,
    report: CommitReport,
    files: tuple[LandingFile, ...],
    gathered: _Gathered,
) -> OperationResult:
    return OperationResult(
        id=operation.id,
        outcome=Outcome.SUCCEEDED,
        instant=report.instant,
        write_operation=report.operation,
        files_written=report.files_written,
        rows_written=report.rows_written,
        rows_inserted=report.rows_inserted,
        rows_updated=report.rows_updated,
        rows_deleted=report.rows_deleted,
        rows_set_aside=sum(len(rows) for rows in gathered.rows.values()),
        bytes_written=report.bytes_written,
        seconds=round(report.seconds, 3),
        source_files=len(files),
        source_bytes=sum(file.size_bytes for file in files),
        skipped=tuple(gathered.skipped),
        rolled_back=report.rolled_back,
        notes=(*_row_notes(gathered), *gathered.notes, *report.notes),
    )


def _row_notes(gathered: _Gathered) -> list[str]:
    """One note for each file whose rows were set aside."""
    return [
        f"{counted(len(rows), 'row')} of {path} set aside in {QUARANTINE}/: {rows[0]}"
        + (" ..." if len(rows) > 1 else "")
        for path, rows in gathered.rows.items()
    ]
