"""One ingest operation: landed files become one commit that also says they are in.

1. Read the table's checkpoint. If it is not the one the plan was made with, somebody else went
   first: there is nothing to do.
2. List the landing prefix. Files that changed or went since the plan are left for the next one.
3. Read the files in order of arrival; transform; mark deletes; fit the table's columns.
4. Write, with the new checkpoint in the commit's extra metadata. Rows and checkpoint become
   visible together or not at all.
5. Should reading fail, find the files at fault. Fail: stop, naming them. Quarantine: note each
   beside the landing files and go on with the rest from 3. The note is written before the commit:
   dying in between only means that the next run finds the note there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tideline.clock import Clock
from tideline.commit_report import CommitReport
from tideline.errors import Conflict, InvalidData, StorageUnavailable
from tideline.ingest.arrow_schema import arrow_schema
from tideline.ingest.checkpoint import (
    CHECKPOINT_PREFIX,
    INGEST_KEY,
    Checkpoint,
    advance,
    checkpoint_metadata,
    read_checkpoints,
)
from tideline.ingest.landing import Landing, LandingFile, list_landing, quarantine
from tideline.ingest.operation import IngestFiles, Operation
from tideline.ingest.operation_result import OperationResult, Outcome, SkippedFile
from tideline.ingest.table_access import (
    Progress,
    SessionFactory,
    create_declared_table,
    locate,
    open_table,
)
from tideline.lake_table import LakeTable
from tideline.spark.landed_rows import (
    column_types,
    fit_to_table,
    is_infrastructure_failure,
    known_types,
    mark_deletes,
    struct_of,
    transform_rows,
)
from tideline.spark.sources import (
    SPARK_FAILURES,
    SourceSettings,
    UnreadableFiles,
    failure_reason,
    find_unreadable,
    read_files,
    types_of,
)
from tideline.storage.object_store import ObjectInfo
from tideline.timeline.active import ActiveTimeline
from tideline.timeline.carried import read_carried
from tideline.timeline.instant import COMMIT_ACTIONS, Instant

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OPERATION_KEY = "tideline.operation"
FILES_KEY = "tideline.ingest.files"
DELETE = "delete"
_FILES_NAMED_MAX = 1_000
_PARTIAL_UPDATE = "tideline.write.partial.update.columns"


@dataclass(slots=True)
class _Gathered:
    """What an attempt has learned so far."""

    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def execute_ingest(
    operation: Operation,
    work: IngestFiles,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    """Carry out one ingest; see the module's text.

    Raises InvalidData naming the file or the rows, ConfigError, Conflict, StorageUnavailable.
    """
    table = open_table(operation.table, operation.writer)
    checkpoints = current_checkpoints(table, work.name)
    checkpoint = checkpoints.get(work.name)
    generation = checkpoint.generation if checkpoint else 0
    if generation != work.generation:
        message = f"the checkpoint is at generation {generation}, planned with {work.generation}"
        return OperationResult(operation.id, Outcome.NOTHING, message)
    landing = list_landing(locate(work.landing).open(), work.file_format)
    gathered = _Gathered()
    files = _still_there(work.files, landing, checkpoint, gathered)
    while files:
        attempt = _Attempt(operation, work, files, table, checkpoints, landing, progress)
        session = session_factory((locate(operation.table.location), locate(work.landing)))
        report, bad = attempt.run(session)
        if report is not None:
            return _result(operation, report, files, gathered)
        progress(f"setting {len(bad)} files aside")
        for file in files:
            if file.path in bad:
                _set_aside(work, file, bad[file.path], clock, gathered)
        files = tuple(file for file in files if file.path not in bad)
    return OperationResult(
        operation.id,
        Outcome.NOTHING,
        "no file was taken in",
        skipped=tuple(gathered.skipped),
        notes=tuple(gathered.notes),
    )


def current_checkpoints(table: LakeTable | None, name: str) -> dict[str, Checkpoint]:
    """The checkpoint of ingest `name`, and those of others that the newest commit carries."""
    if table is None:
        return {}
    timeline = table.timeline()

    def read(instant: Instant) -> Mapping[str, str]:
        return table.hoodie_table.read_commit(instant).extra_metadata

    newest = timeline.completed().of(*COMMIT_ACTIONS).last()
    carried = read(newest) if newest is not None else {}
    others = {
        key.removeprefix(CHECKPOINT_PREFIX) for key in carried if key.startswith(CHECKPOINT_PREFIX)
    }
    return read_checkpoints(
        timeline, read, {name} | others, lambda: _archived(table, timeline, remembers=False)
    )


def _archived(table: LakeTable, timeline: ActiveTimeline, *, remembers: bool) -> dict[str, str]:
    """Checkpoints that archived commits carried; `remembers` only under the table lock."""
    if not timeline.has_archive:
        return {}
    return read_carried(table.hoodie_table.archived(), CHECKPOINT_PREFIX, remembers=remembers)


def require_generation(table: LakeTable, timeline: ActiveTimeline, work: IngestFiles) -> None:
    """Raise Conflict when another driver of this ingest has committed since it was planned.

    Asked under the table lock: two drivers write different file groups, so nothing else would
    keep them from taking the same files in twice.
    """

    def read(instant: Instant) -> Mapping[str, str]:
        return table.hoodie_table.read_commit(instant).extra_metadata

    found = read_checkpoints(
        timeline, read, {work.name}, lambda: _archived(table, timeline, remembers=True)
    ).get(work.name)
    generation = found.generation if found else 0
    if generation != work.generation:
        raise Conflict(
            f"another driver of ingest {work.name!r} has committed meanwhile",
            table=table.uri,
            value=f"generation {generation}, planned with {work.generation}",
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
            f"{len(planned) - len(files)} files changed or went since they were planned"
        )
    return tuple(file for file in files if checkpoint is None or not checkpoint.has_taken(file))


def _set_aside(
    work: IngestFiles, file: LandingFile, reason: str, clock: Clock, gathered: _Gathered
) -> None:
    """Apply the policy to a file that cannot be read, unless it has changed meanwhile."""
    store = locate(work.landing).open()
    info = store.head(file.path)
    if info is None or not _is_same(info, file):
        gathered.notes.append(f"{file.path} changed while it was read; left for later")
        return
    if not work.quarantines:
        uri = f"{work.landing.uri}/{file.path}"
        raise InvalidData(f"Source file cannot be read: {reason}", path=uri)
    quarantine(store, file, reason=reason, now_ms=clock.now_ms())
    gathered.skipped.append(SkippedFile(file.path, reason))


def _is_same(info: ObjectInfo, file: LandingFile) -> bool:
    # S3 tells milliseconds in a listing, but only seconds about a single object.
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

    def run(self, session: SparkSession) -> tuple[CommitReport | None, Mapping[str, str]]:
        """A report, or the files at fault and why."""
        try:
            return self._write(session), {}
        except UnreadableFiles as error:
            return None, error.reasons
        except InvalidData as error:
            raise InvalidData(
                f"Ingest {self.work.name!r}: {error.message}",
                table=self.operation.table.location.uri,
                path=self._named_files,
                value=error.value,
            ) from error
        except SPARK_FAILURES as error:
            if is_infrastructure_failure(error):
                raise StorageUnavailable(
                    f"Spark could not do its work: {failure_reason(error)}",
                    table=self.operation.table.location.uri,
                ) from error
            self.progress("looking for the file at fault")
            bad = find_unreadable(session, self._paths, self._settings())
            if bad:
                return None, bad
            raise InvalidData(
                f"Ingest {self.work.name!r}: the rows cannot be written: {failure_reason(error)}",
                table=self.operation.table.location.uri,
                path=self._named_files,
            ) from error

    @property
    def _paths(self) -> list[str]:
        return [file.path for file in self.files]

    @property
    def _named_files(self) -> str:
        first, last = self._paths[0], self._paths[-1]
        return f"{first} to {last}" if len(self.files) > 1 else first

    def _write(self, session: SparkSession) -> CommitReport:
        work, target = self.work, self.operation.table
        self.progress(f"reading {len(self.files)} files")
        source = read_files(session, self._paths, self._settings())
        rows = self._shape(session, source)
        schema = self._table_schema()
        fits = work.write_operation != DELETE and _PARTIAL_UPDATE not in target.write_properties
        if schema is not None and fits:
            rows = fit_to_table(rows, schema, is_text=work.file_format.is_text)
        if schema is None:
            self._require_rows(rows)
        columns = column_types(source) if self._remembers_columns else ()
        writer = self.operation.writer
        table = self.table or open_table(target, writer) or create_declared_table(target, writer)
        self.progress(f"writing {len(self.files)} files")
        return table.write(
            rows,
            operation=work.write_operation,
            extra_metadata=self._metadata(columns),
            options=target.write_properties,
            require=lambda now: require_generation(table, now, work),
        )

    def _require_rows(self, rows: DataFrame) -> None:
        """Raise InvalidData where the first batch cannot decide what the table will be."""
        if self.work.write_operation == DELETE:
            raise InvalidData("it deletes, and there is nothing to delete from yet")
        if self.work.file_format.is_text and rows.isEmpty():
            raise InvalidData(
                "the first files have no rows to tell the types of the columns by: declare "
                "spec.schema"
            )

    def _shape(self, session: SparkSession, rows: DataFrame) -> DataFrame:
        if self.work.transform is not None:
            rows = transform_rows(session, rows, self.work.transform)
        if self.work.delete_when is not None:
            rows = mark_deletes(rows, self.work.delete_when)
        return rows

    @property
    def _remembers_columns(self) -> bool:
        """Text that is transformed keeps the types its first batch was read with."""
        work = self.work
        return work.file_format.is_text and work.transform is not None and not work.source_schema

    def _settings(self) -> SourceSettings:
        work = self.work
        checkpoint = self.checkpoints.get(work.name)
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
        advanced = advance(self.checkpoints.get(work.name), self.landing, self.files)
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
        bytes_written=report.bytes_written,
        seconds=round(report.seconds, 3),
        source_files=len(files),
        source_bytes=sum(file.size_bytes for file in files),
        skipped=tuple(gathered.skipped),
        rolled_back=report.rolled_back,
        notes=(*gathered.notes, *report.notes),
    )
