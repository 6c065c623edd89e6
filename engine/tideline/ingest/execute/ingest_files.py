"""One ingest operation: landed files become one commit that also says they are in.

1. Read the table's checkpoint. If it is not the one the plan was made with, another process was
   first: there is nothing to do.
2. List the landing prefix. Files that changed or went since the plan are left for the next one.
3. Read the files in order of arrival; transform; mark deletes; fit the table's columns. This
   process does so where it can (`in_process_intake`), Spark otherwise.
4. Write, with the new checkpoint in the commit's extra metadata. Rows and checkpoint become
   visible together or not at all.
5. Should the batch fail, Spark reads it once more and finds the files, or the rows, at fault
   (`tideline.spark.source_files.bad_input`). Rows are set aside where that is allowed. Bad files:
   Fail stops, naming them; Quarantine notes each next to the landing files. Then continue with the
   rest from 3. Both are written before the commit: see `tideline.ingest.sources.files.quarantine`
   for what dying in between leaves.
6. Where the policy says so, what the table has taken in leaves the landing prefix
   (`tideline.ingest.execute.clear_landing`): only after the commit, and after an attempt that died
   between the two by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tideline.clock import Clock
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError, TidelineError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.ingest.execute.clear_landing import clear_landing
from tideline.ingest.execute.in_process_intake import ForSpark, InProcessIntake, require_spark
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.table_access import Progress, SessionFactory, locate, open_table
from tideline.ingest.execute.table_checkpoints import current_checkpoints
from tideline.ingest.operation.operation import IngestFiles, Operation
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.after_ingest import AfterIngest
from tideline.ingest.sources.files.listing import (
    QUARANTINE,
    ArrivedFile,
    FileListing,
    list_arrived,
    list_arrived_after,
)
from tideline.ingest.sources.files.quarantine import quarantine, quarantine_rows, release_rows
from tideline.ingest.sources.resume import newest_of
from tideline.storage.object_store import ObjectInfo, ObjectStore
from tideline.wording import counted

if TYPE_CHECKING:
    from tideline.spark.source_files.bad_input import BadInput
    from tideline.spark.source_files.bad_rows import BadRow
    from tideline.spark.source_files.sources import SourceSettings

_PATHS_NAMED_MAX = 3


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
    StorageUnavailableError. Once there is a commit, trouble in clearing the landing prefix is noted
    in the result: the next operation of this ingest does that again.
    """
    result = _take_in(
        operation, work, session_factory=session_factory, clock=clock, progress=progress
    )
    if work.taken is AfterIngest.KEEP:
        return result
    try:
        cleared = clear_landing(operation, work, progress)
    except TidelineError as error:
        if not work.files:
            raise
        note = f"files that were taken in are still in the landing prefix: {error}"
        return replace(result, notes=(*result.notes, note))
    if not cleared.files:
        return result
    if not work.files:
        outcome, message = Outcome.SUCCEEDED, cleared.words
        return replace(result, outcome=outcome, message=message, files_cleared=cleared.files)
    return replace(result, files_cleared=cleared.files, notes=(*result.notes, cleared.words))


def _take_in(
    operation: Operation,
    work: IngestFiles,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    table = open_table(operation.table, operation.writer)
    checkpoints = current_checkpoints(table, work.name, work.former_name)
    checkpoint = newest_of(checkpoints, work.name, work.former_name)
    generation = checkpoint.generation if checkpoint else 0
    if generation != work.generation:
        message = f"the checkpoint is at generation {generation}, planned with {work.generation}"
        return OperationResult(operation.id, Outcome.NOTHING, message)
    landing = list_arrived_after(
        locate(work.landing).open(),
        work.file_format,
        work.listed_after,
        lambda file: checkpoint is not None and checkpoint.has_taken(file),
    )
    gathered = _Gathered()
    files = _still_there(work.files, landing, checkpoint, gathered)
    setting_aside = _SettingAside(work, clock, gathered)
    needed: ForSpark | None = None
    while files:
        batch = IngestBatch(operation, work, files, table, checkpoints, landing, progress)
        if needed is None:
            done = _write_in_process(batch)
            if isinstance(done, CommitReport):
                return _result(operation, done, files, gathered)
            needed = done
            require_spark(needed)
        from tideline.ingest.execute.ingest_on_spark import SparkAttempt

        session = session_factory((locate(operation.table.location), locate(work.landing)))
        attempt = SparkAttempt(batch, gathered.left_out, gathered.reading)
        report, bad = attempt.run(session)
        if report is not None:
            return _result(operation, report, files, gathered)
        progress("setting aside what cannot be taken in")
        files = setting_aside.apply(bad, files)
        # The attempt may have made it: its keys say which rows are to be left out.
        table = table or open_table(operation.table, operation.writer)
    return OperationResult(
        operation.id,
        Outcome.NOTHING,
        "no file was taken in",
        skipped=tuple(gathered.skipped),
        notes=tuple(gathered.notes),
    )


def _write_in_process(batch: IngestBatch) -> CommitReport | ForSpark:
    """The commit, or why it is for Spark; nothing has been written then."""
    work = batch.work
    if batch.deletes and batch.table_schema() is None:
        return ForSpark("there is no table yet")
    intake = InProcessIntake.of(work)
    kind = WriteOperation.parse(work.write_operation)
    properties = batch.operation.table.write_properties
    try:
        rows = intake.rows(batch.paths, batch.table, kind, properties)
        if isinstance(rows, ForSpark):
            return rows
        # A table that is new here may be of a kind that is Spark's.
        reason = intake.why_spark(batch.declared_table(), kind, properties, rows.nbytes)
        return batch.write(rows) if reason is None else ForSpark(reason)
    except (InvalidDataError, ConfigError) as error:
        return ForSpark("something does not fit", error)


def _still_there(
    planned: tuple[ArrivedFile, ...],
    landing: FileListing,
    checkpoint: Checkpoint | None,
    gathered: _Gathered,
) -> tuple[ArrivedFile, ...]:
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

    def apply(self, bad: BadInput, files: tuple[ArrivedFile, ...]) -> tuple[ArrivedFile, ...]:
        """Set aside what is bad; the files that are left. Raises InvalidDataError where the policy
        is to fail."""
        if bad.files and not self.work.quarantines:
            path, reason = next(iter(bad.files.items()))
            others = [other for other in bad.files if other != path]
            more = f" (and {counted(len(others), 'more file')}: {_listed(others)})"
            raise InvalidDataError(
                f"source file cannot be taken in: {reason}{more if others else ''}",
                path=f"{self.work.landing.uri}/{path}",
            )
        gathered = self.gathered
        if bad.waiting:
            waiting = counted(len(bad.waiting), "file")
            gathered.notes.append(f"{waiting} with bad rows left for the next commit")
        kept = []
        for file in files:
            if file.path in bad.files:
                self._set_file_aside(file, bad.files[file.path])
            elif file.path in bad.rows and not self._keep_rows(file, bad.rows[file.path]):
                continue
            elif file.path not in bad.waiting:
                kept.append(file)
        if bad.settings is not None:
            gathered.reading = replace(bad.settings, keeps_bad_rows=False)
        return tuple(kept)

    def _set_file_aside(self, file: ArrivedFile, reason: str) -> None:
        store = locate(self.work.landing).open()
        self.gathered.rows.pop(file.path, None)
        if self._is_unchanged(store, file):
            quarantine(store, file, reason=reason, now_ms=self.clock.now_ms())
            release_rows(store, file, list_arrived(store, self.work.file_format))
            self.gathered.skipped.append(SkippedFile(file.path, reason))

    def _keep_rows(self, file: ArrivedFile, rows: tuple[BadRow, ...]) -> bool:
        store = locate(self.work.landing).open()
        if not self._is_unchanged(store, file):
            return False
        # Listed again: an earlier listing of this very run may have found other rows.
        landing = list_arrived(store, self.work.file_format)
        quarantine_rows(store, file, [row.to_json_object() for row in rows], landing)
        self.gathered.rows[file.path] = rows
        return True

    def _is_unchanged(self, store: ObjectStore, file: ArrivedFile) -> bool:
        info = store.head(file.path)
        if info is not None and _is_same(info, file):
            return True
        self.gathered.notes.append(f"{file.path} changed while it was read; left for later")
        return False


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:_PATHS_NAMED_MAX]) + (", ..." if len(paths) > _PATHS_NAMED_MAX else "")


def _is_same(info: ObjectInfo, file: ArrivedFile) -> bool:
    # S3 gives milliseconds in a listing, but only seconds about a single object.
    same_time = info.modified_ms // 1000 == file.modified_ms // 1000
    return same_time and info.size_bytes == file.size_bytes


def _result(
    operation: Operation,
    report: CommitReport,
    files: tuple[ArrivedFile, ...],
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
        columns_added=report.columns_added,
        columns_widened=report.columns_widened,
    )


def _row_notes(gathered: _Gathered) -> list[str]:
    """One note for each file whose rows were set aside."""
    return [
        f"{counted(len(rows), 'row')} of {path} set aside in {QUARANTINE}/: {rows[0]}"
        + (" ..." if len(rows) > 1 else "")
        for path, rows in gathered.rows.items()
    ]
