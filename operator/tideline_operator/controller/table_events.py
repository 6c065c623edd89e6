"""The events for the end of an operation. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import ConflictError, UnknownOutcomeError
from tideline.ingest.operation.operation import OperationKind
from tideline.ingest.operation.result import FILE, OperationResult, Outcome
from tideline.wording import counted, size_text
from tideline_operator.controller.event_recorder import TableEvent
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus

_FAILURES = {ConflictError.exit_code: "Conflict", UnknownOutcomeError.exit_code: "OutcomeUnknown"}
_REASONS = {
    OperationKind.CREATE: "TableCreated",
    OperationKind.INGEST: "Committed",
    OperationKind.ROLLBACK: "RolledBack",
    OperationKind.SAVEPOINT: "SavepointMade",
    OperationKind.RESTORE: "Restored",
}
_FILES_NAMED = 3


def series_of(entry: OperationStatus, status: LakeTableStatus) -> str:
    """The series of consecutive failures of one kind of operation; it ends with a success.

    It continues when other files, or a changed spec, made another operation of it.
    """
    kept = [item for item in status.operations if item.id != entry.id]
    good = next((item.id for item in reversed(kept) if _is_good(item, entry)), "")
    return f"{entry.kind} {entry.subject} {good} {entry.attempt - entry.failures}"


def _is_good(item: OperationStatus, entry: OperationStatus) -> bool:
    is_same = (item.kind, item.subject) == (entry.kind, entry.subject)
    return is_same and item.phase is OperationPhase.SUCCEEDED


def events_of(
    entry: OperationStatus, result: OperationResult, status: LakeTableStatus
) -> tuple[TableEvent, ...]:
    """What to record of an operation that ended with `result`; `status` is the table's."""
    name = entry.title
    events: list[TableEvent] = []
    attempt = f"{entry.id}-{entry.attempt}"
    if result.outcome is Outcome.FAILED:
        reason = _FAILURES.get(result.exit_code, "OperationFailed")
        is_unknown = result.exit_code == UnknownOutcomeError.exit_code
        ended = "has an unknown outcome" if is_unknown else "failed"
        note = f"{name} {ended} (attempt {entry.attempt}): {result.message}"
        events.append(TableEvent(reason, series_of(entry, status), note, True, attempt))
    elif result.outcome is Outcome.SUCCEEDED:
        events.append(_success(entry, result))
    if result.columns_added:
        note = f"{name} gave types to new columns: {', '.join(result.columns_added)}"
        events.append(_once("SchemaInferred", result.instant or attempt, note))
    if result.columns_widened:
        note = f"{name} widened columns: {', '.join(result.columns_widened)}"
        events.append(_once("SchemaWidened", result.instant or attempt, note))
    if result.rolled_back and OperationKind(entry.kind) is not OperationKind.ROLLBACK:
        instants = ", ".join(result.rolled_back)
        events.append(_once("RolledBack", instants, f"{name} rolled back {instants} first"))
    if result.skipped:
        named = "; ".join(f"{file.path}: {file.reason}" for file in result.skipped[:_FILES_NAMED])
        more = len(result.skipped) - _FILES_NAMED
        note = f"{name} set aside {named}" + (f"; and {more:,} more" if more > 0 else "")
        events.append(TableEvent("Quarantined", attempt, note, True, attempt))
    if result.rows_set_aside:
        rows = counted(result.rows_set_aside, "row")
        first = next(iter(result.notes), "")
        note = f"{name} set aside {rows}: {first}"
        subject = f"{attempt}-rows"
        events.append(TableEvent("Quarantined", subject, note, True, subject))
    return tuple(events)


def _success(entry: OperationStatus, result: OperationResult) -> TableEvent:
    """An event for each operation, but one series for the commits of a stream."""
    reason = _REASONS.get(OperationKind(entry.kind), "ServiceRan")
    occurrence = result.instant or f"{entry.id}-{entry.attempt}"
    event = _once(reason, occurrence, _done(entry.title, result))
    if result.source_part == FILE:
        return event
    return replace(event, subject=entry.subject, is_frequent=True)


def _once(reason: str, subject: str, note: str) -> TableEvent:
    """What happens once under its subject, however often it is recorded."""
    return TableEvent(reason, subject, note, occurrence=subject)


def _done(name: str, result: OperationResult) -> str:
    words = [f"{name} {result.instant}" if result.instant else name]
    if result.source_files:
        words.append(f"{result.taken_in} in")
    if result.rows_inserted:
        words.append(f"{counted(result.rows_inserted, 'row')} inserted")
    changed = [(result.rows_updated, "updated"), (result.rows_deleted, "deleted")]
    words += [f"{number:,} {what}" for number, what in changed if number]
    files = [(result.files_written, "written"), (result.files_deleted, "deleted")]
    words += [f"{counted(number, 'file')} {what}" for number, what in files if number]
    sizes = [(result.bytes_read, "read"), (result.bytes_deleted, "freed")]
    if result.files_read:
        sizes.insert(1, (result.bytes_written, "written"))
    words += [f"{size_text(size)} {what}" for size, what in sizes if size]
    if result.message:
        words.append(result.message)
    return ", ".join(words) + (f" in {result.seconds:.1f} s" if result.seconds else "")
