"""Carrying out one operation, for any caller: a local worker, or `tideline execute`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError, TidelineError, UnknownOutcomeError, error_kind
from tideline.ingest.execute.lineage import LineageRun
from tideline.ingest.execute.run_service import execute_restore, execute_savepoint, execute_service
from tideline.ingest.execute.table_access import Progress, SessionFactory, open_table
from tideline.ingest.operation.operation import (
    CreateTable,
    IngestRange,
    MakeSavepoint,
    Operation,
    RestoreTable,
    RollBack,
    RunService,
)
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.resource_usage import ResourceUsage
from tideline.tracing import SpanKey, Traced, send_spans, traced
from tideline.wording import counted

_SYSTEM_CLOCK = SystemClock()


def execute_operation(
    operation: Operation,
    *,
    session_factory: SessionFactory,
    clock: Clock = _SYSTEM_CLOCK,
    progress: Progress | None = None,
    traceparent: str | None = None,
) -> OperationResult:
    """Carry out `operation`.

    `session_factory` gets the locations that Spark must reach, and is only called for work that
    moves rows. `progress` hears, in words, what is being done. `traceparent` is the span it is part
    of, by default TRACEPARENT's. Errors that Tideline knows come back as a FAILED result with the
    exit code of their kind; all others are raised.
    """
    before = ResourceUsage.so_far()
    run = LineageRun.start(operation)
    try:
        with traced(operation.title, _about(operation), parent=traceparent) as span:

            def tell(words: str) -> None:
                span.note(words)
                if progress is not None:
                    progress(words)

            result = _execute_or_fail(operation, session_factory, clock, tell)
            _end(span, result)
    except BaseException as error:
        run.end(failed_result(operation.id, error))
        raise
    finally:
        send_spans()
    run.end(result)
    spent = ResourceUsage.so_far().since(before)
    return replace(
        result,
        core_seconds=spent.core_seconds,
        requests=spent.requests,
        index_lookups=spent.index_lookups,
        index_fallbacks=spent.index_fallbacks,
    )


def failed_result(operation_id: str, error: BaseException) -> OperationResult:
    """The result of an operation that ended with `error`."""
    known = isinstance(error, TidelineError)
    return OperationResult(
        operation_id,
        Outcome.FAILED,
        message=str(error) if known else f"{type(error).__name__}: {error}",
        exit_code=error.exit_code if isinstance(error, TidelineError) else 1,
        error=error_kind(error),
        instant=str(error.instant) if isinstance(error, UnknownOutcomeError) else None,
    )


def read_operation(path: Path) -> Operation:
    """An operation from its JSON file. Raises ConfigError naming the file when it is none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"this operation cannot be read: {error}", path=path) from error
    return Operation.from_json_object(content)


def _execute_or_fail(
    operation: Operation, session_factory: SessionFactory, clock: Clock, progress: Progress
) -> OperationResult:
    try:
        return _execute(operation, session_factory, clock, progress)
    except TidelineError as error:
        return failed_result(operation.id, error)


def _execute(
    operation: Operation, session_factory: SessionFactory, clock: Clock, progress: Progress
) -> OperationResult:
    match operation.work:
        case CreateTable():
            return _create(operation)
        case RollBack():
            return _roll_back(operation, operation.work)
        case RunService():
            return execute_service(
                operation,
                operation.work,
                session_factory=session_factory,
                clock=clock,
                progress=progress,
            )
        case MakeSavepoint():
            return execute_savepoint(operation, operation.work)
        case RestoreTable():
            return execute_restore(operation, operation.work)
        case IngestRange(is_dry=True):
            from tideline.ingest.execute.rehearse_ingest import rehearse_ingest

            return rehearse_ingest(
                operation, operation.work, session_factory=session_factory, progress=progress
            )
        case IngestRange():
            # Work that moves no rows runs where Spark is not installed.
            from tideline.ingest.execute.ingest import execute_ingest

            return execute_ingest(
                operation,
                operation.work,
                session_factory=session_factory,
                clock=clock,
                progress=progress,
            )


def _create(operation: Operation) -> OperationResult:
    # Work that moves no rows runs where Spark is not installed.
    from tideline.ingest.execute.open_ingest_table import open_ingest_table

    table = open_ingest_table(operation)
    if not table.exists:
        table.created()
        return OperationResult(operation.id, Outcome.SUCCEEDED, "created the table")
    version = table.upgraded()
    if version is None:
        return OperationResult(operation.id, Outcome.NOTHING, "the table is there already")
    message = f"upgraded the table to version {version}"
    return OperationResult(operation.id, Outcome.SUCCEEDED, message)


def _roll_back(operation: Operation, work: RollBack) -> OperationResult:
    table = open_table(operation.table, operation.writer)
    undone = table.recover(gone=work.gone) if table is not None else ()
    if not undone:
        return OperationResult(operation.id, Outcome.NOTHING, "nothing to roll back")
    return OperationResult(
        operation.id,
        Outcome.SUCCEEDED,
        rolled_back=tuple(str(item.instant) for item in undone),
        notes=tuple(
            f"rolled back {item.instant} ({item.action}): {counted(len(item.deleted), 'file')} "
            "deleted"
            for item in undone
        ),
    )


def _about(operation: Operation) -> dict[str, str]:
    """Attributes of the operation's span."""
    return {
        SpanKey.OPERATION: operation.id,
        SpanKey.KIND: operation.kind.value,
        SpanKey.TABLE: operation.table.name,
        SpanKey.LOCATION: operation.table.location.uri,
    }


def _end(span: Traced, result: OperationResult) -> None:
    found = {
        SpanKey.OUTCOME: result.outcome.value,
        SpanKey.INSTANT: result.instant,
        SpanKey.ROWS_WRITTEN: result.rows_written,
        SpanKey.BYTES_WRITTEN: result.bytes_written,
    }
    span.set({key: value for key, value in found.items() if value})
    if result.outcome is Outcome.FAILED:
        span.set({"error.type": result.error or "error"})
        span.fail(result.message)
