"""One ingest operation: a range of a source becomes one commit that also says it is in.

1. Read the table's checkpoint. If it is not the one the plan was made with, another process was
   first: there is nothing to do.
2. Look at the source. What changed or went since the plan is left for the next one.
3. Read the range in order of arrival; transform; mark deletes; fit the table's columns. This
   process does so where it can (`in_process`), Spark otherwise.
4. Write, with the new checkpoint in the commit's extra metadata. Rows and checkpoint become
   visible together or not at all.
5. Bad parts of the range and bad rows are set aside before the commit, where that is allowed; then
   the rest is read again from 3. What this process cannot say of them Spark finds, which reads the
   batch once more. Where bad parts fail the ingest, it stops and names them.
6. What is left to do in the source is done: only after the commit, and after an attempt that died
   between the two by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tideline.bad_input import BadInput, BadRow
from tideline.clock import Clock
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError, TidelineError
from tideline.ingest.execute.in_process import (
    batch_bytes_max,
    read_in_process,
    require_spark,
)
from tideline.ingest.execute.ingest_batch import IngestBatch
from tideline.ingest.execute.open_ingest_table import open_ingest_table
from tideline.ingest.execute.table_access import Progress, SessionFactory
from tideline.ingest.locate import locate
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.ingest.sources.checkpoint import newest_of
from tideline.ingest.sources.kinds import kind_named
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Declared, ForSpark, Range, Settled, Source
from tideline.wording import counted

_NAMES_SHOWN_MAX = 3


@dataclass(slots=True)
class _Gathered:
    """What attempts have learned so far; `rows` were set aside, by the name of their part."""

    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows: dict[str, tuple[BadRow, ...]] = field(default_factory=dict)
    reading: Any = None
    records: int = 0
    size_bytes: int = 0

    @property
    def left_out(self) -> frozenset[int]:
        return frozenset(row.digest for rows in self.rows.values() for row in rows)


def execute_ingest(
    operation: Operation,
    work: IngestRange,
    *,
    session_factory: SessionFactory,
    clock: Clock,
    progress: Progress,
) -> OperationResult:
    """Carry out one ingest; see the module's text.

    Raises InvalidDataError naming the part or the rows, ConfigError, ConflictError,
    StorageUnavailableError. Once there is a commit, trouble in settling is noted in the result: the
    next operation of this ingest does that again.
    """
    source = kind_named(work.source.kind).open(work.source)
    attempt = _Attempt(operation, work, source, session_factory, clock, progress)
    try:
        result = attempt.take_in()
    finally:
        source.release()
    if not work.source.settles:
        return result
    try:
        settled = _settle(operation, work, source, progress)
    except TidelineError as error:
        if not work.range.names:
            raise
        note = f"{work.source.part}s that were taken in are still in the source: {error}"
        return replace(result, notes=(*result.notes, note))
    if not settled.parts:
        return result
    if not work.range.names:
        outcome, message = Outcome.SUCCEEDED, settled.words
        return replace(result, outcome=outcome, message=message, files_cleared=settled.parts)
    return replace(result, files_cleared=settled.parts, notes=(*result.notes, settled.words))


def _settle(operation: Operation, work: IngestRange, source: Source, progress: Progress) -> Settled:
    checkpoints = open_ingest_table(operation).checkpoints(work)
    checkpoint = newest_of(checkpoints, work.name, work.former_name)
    return Settled() if checkpoint is None else source.settle(checkpoint.position, progress)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One ingest under way."""

    operation: Operation
    work: IngestRange
    source: Source
    session_factory: SessionFactory
    clock: Clock
    progress: Progress
    gathered: _Gathered = field(default_factory=_Gathered)

    def take_in(self) -> OperationResult:
        operation, work, gathered = self.operation, self.work, self.gathered
        table = open_ingest_table(operation)
        checkpoints = table.checkpoints(work)
        checkpoint = newest_of(checkpoints, work.name, work.former_name)
        generation = checkpoint.generation if checkpoint else 0
        if generation != work.generation:
            message = (
                f"the checkpoint is at generation {generation}, planned with {work.generation}"
            )
            return OperationResult(operation.id, Outcome.NOTHING, message)
        position = None if checkpoint is None else checkpoint.position
        reach = own_reach()
        available = work.source.positions(reach, position, work.range.start)
        left = available.still_there(work.range, None)
        if len(left.names) < len(work.range.names):
            gone = counted(len(work.range.names) - len(left.names), work.source.part)
            gathered.notes.append(f"{gone} changed or removed since the plan")
        left = available.still_there(left, position)
        needed: ForSpark | None = None
        while left.names:
            batch = IngestBatch(operation, work, left, table, checkpoints, available, self.progress)
            done = self._in_process(batch) if needed is None else needed
            if isinstance(done, ForSpark):
                needed = done
                require_spark(needed, work.source)
                done = self._on_spark(batch)
            if done is None:
                break
            if isinstance(done, CommitReport):
                return _result(operation, done, work.source, left, gathered)
            self.progress("setting aside what cannot be taken in")
            left = self._set_aside(done, left)
            # The attempt may have made it: its keys say which rows are to be left out.
            table = table.found()
        return OperationResult(
            operation.id,
            Outcome.NOTHING,
            f"no {work.source.part} was taken in",
            skipped=tuple(gathered.skipped),
            notes=tuple(gathered.notes),
        )

    def _in_process(self, batch: IngestBatch) -> CommitReport | BadInput | ForSpark | None:
        """The commit, or what is bad, or why it is for Spark: nothing has been written then. None
        where there is nothing that is worth a commit."""
        if batch.deletes and batch.table_schema() is None:
            return ForSpark("there is no table yet")
        try:
            found = read_in_process(self.source, batch, self.gathered.left_out)
            if isinstance(found, ForSpark):
                return found
            self.gathered.records, self.gathered.size_bytes = found.records, found.size_bytes
            if found.bad.files or found.bad.digests - self.gathered.left_out:
                return found.bad
            if found.taken is not None and not found.taken.names:
                return None
            # A table that is new here may be of a kind that is Spark's.
            reason = batch.table.created().why_spark(self.work, found.table.nbytes)
            if reason is not None:
                return ForSpark(reason)
            if found.sweep is not None:
                return batch.sweep(found.sweep, batch_bytes_max())
            done = replace(batch, range=found.taken or batch.range)
            if found.begins_again:
                return done.begin_again(found.table, found.columns)
            if found.replaces_all:
                return done.replace_all(found.table, found.columns)
            return done.write(found.table, found.columns)
        except (InvalidDataError, ConfigError) as error:
            return ForSpark("something does not fit", error)

    def _on_spark(self, batch: IngestBatch) -> CommitReport | BadInput:
        # Rows that this process takes in need no Spark.
        from tideline.ingest.execute.ingest_on_spark import SparkAttempt

        places = (self.operation.table.location, *self.work.source.places)
        session = self.session_factory(tuple(map(locate, places)))
        gathered = self.gathered
        attempt = SparkAttempt(self.source, batch, gathered.left_out, gathered.reading)
        written, bad = attempt.run(session)
        if written is None:
            return bad
        report, measured = written
        gathered.records, gathered.size_bytes = measured.records, measured.size_bytes
        return report

    def _set_aside(self, bad: BadInput, left: Range) -> Range:
        """Set aside what is bad; what is left. Raises InvalidDataError where the policy is to
        fail."""
        work, gathered = self.work, self.gathered
        if bad.files and not work.quarantines:
            name, reason = next(iter(bad.files.items()))
            others = [other for other in bad.files if other != name]
            more = f" (and {counted(len(others), f'more {work.source.part}')}: {_listed(others)})"
            raise InvalidDataError(
                f"source {work.source.part} cannot be taken in: {reason}{more if others else ''}",
                path=f"{work.source.uri}/{name}",
            )
        if bad.waiting:
            waiting = counted(len(bad.waiting), work.source.part)
            gathered.notes.append(f"{waiting} with bad rows left for the next commit")
        kept = []
        for name in left.names:
            if name in bad.files:
                self._set_part_aside(left, name, bad.files[name])
            elif name in bad.rows and not self._set_rows_aside(left, name, bad.rows[name]):
                continue
            elif name not in bad.waiting:
                kept.append(name)
        if bad.reading is not None:
            gathered.reading = bad.reading
        return left.only(kept)

    def _set_part_aside(self, left: Range, name: str, reason: str) -> None:
        self.gathered.rows.pop(name, None)
        if self.source.set_part_aside(left, name, reason, self.clock.now_ms()):
            self.gathered.skipped.append(SkippedFile(name, reason))
        else:
            self._note_change(name)

    def _set_rows_aside(self, left: Range, name: str, rows: tuple[BadRow, ...]) -> bool:
        if not self.source.set_rows_aside(left, name, rows):
            self._note_change(name)
            return False
        self.gathered.rows[name] = rows
        return True

    def _note_change(self, name: str) -> None:
        self.gathered.notes.append(f"{name} changed while it was read; left for later")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMES_SHOWN_MAX]) + (", ..." if len(names) > _NAMES_SHOWN_MAX else "")


def _result(
    operation: Operation,
    report: CommitReport,
    declared: Declared,
    taken: Range,
    gathered: _Gathered,
) -> OperationResult:
    set_aside = row_notes(gathered.rows, f" set aside in {declared.quarantine}")
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
        source_files=len(taken.names),
        source_bytes=gathered.size_bytes or taken.size_bytes,
        source_part=declared.part,
        source_records=gathered.records,
        skipped=tuple(gathered.skipped),
        rolled_back=report.rolled_back,
        notes=(
            *set_aside,
            *gathered.notes,
            *taken.notes,
            *report.notes,
        ),
        columns_added=report.columns_added,
        columns_widened=report.columns_widened,
    )


def row_notes(found: Mapping[str, Sequence[BadRow]], done: str = "") -> list[str]:
    """One note for each part with bad rows, with what was done with them."""
    return [
        f"{counted(len(rows), 'row')} of {name}{done}: {rows[0]}"
        + (" ..." if len(rows) > 1 else "")
        for name, rows in found.items()
    ]
