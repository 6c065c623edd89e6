"""One write as its caller sees it: a commit that took place, or an error that says what to do.

1. Roll back and sweep up what dead writers left, then look for the write's token: a write that took
   place already is reported again, and nothing is written.
2. Write and commit inside a transaction (tideline.hudi.write.transaction).
3. When anything fails, the transaction finds out what became of it: committed after all, undone, or
   unknown. Only what is certainly undone leaves as an error that is safe to retry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tideline.errors import TidelineError
from tideline.hudi.capabilities.guard import require_by_properties
from tideline.hudi.commit.conflict import Conflicted
from tideline.hudi.commit.outcome import (
    Committed,
    CompletedByAnother,
    Unknown,
    conflict_error,
    foreign_completion_error,
    unknown_error,
)
from tideline.hudi.recovery.execute import FailedWrites
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.write.transaction import WriteTransaction, begin_write
from tideline.hudi.write.unique_keys import reported_uniqueness, undeclared_index
from tideline.hudi.write.write_request import Repeated, WriteDone, WriteRequest, WrittenFiles
from tideline.resource_usage import ResourceUsage

_log = logging.getLogger(__name__)


def commit_write(
    table: HoodieTable,
    request: WriteRequest,
    write: Callable[[WriteTransaction], WrittenFiles],
    failed_writes: FailedWrites,
) -> WriteDone:
    """Run one transaction; what fails inside is undone before the error is raised again.

    Raises ConflictError when another write got in the way, UnknownOutcomeError when the store went
    away while the commit became visible, CorruptTableError when the store let another writer
    complete our instant, and what `write` raises.
    """
    require_by_properties(table, request.operation.permission)
    started_s, before = table.clock.monotonic_s(), ResourceUsage.so_far()
    transaction = begin_write(table, request, failed_writes)
    if isinstance(transaction, Repeated):
        return _repeated(request, transaction)
    try:
        # After the commit nothing may fail.
        undeclared = undeclared_index(table, request.operation, request.config)
        outcome: Committed | Conflicted | Repeated = transaction.commit(write(transaction))
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        found = _outcome_of_failure(transaction, error)
        if found is None:
            raise
        outcome = found
    if isinstance(outcome, Committed):
        seconds = table.clock.monotonic_s() - started_s
        spent = ResourceUsage.so_far().since(before)
        return _done(transaction, outcome, seconds, spent, undeclared)
    found_then = transaction.abort()
    if isinstance(outcome, Repeated):
        return _repeated(request, outcome)
    if isinstance(found_then, CompletedByAnother):
        raise foreign_completion_error(found_then, table=table.location.uri)
    raise conflict_error(outcome, table=table.location.uri, instant=transaction.instant)


def repeated_write(table: HoodieTable, request: WriteRequest) -> WriteDone | None:
    """The write that the request's token names, if it took place already."""
    if request.token is None:
        return None
    found = request.token.find(table.timeline(), is_locked=False)
    return None if found is None else _repeated(request, Repeated(found))


def _outcome_of_failure(transaction: WriteTransaction, error: BaseException) -> Committed | None:
    """The commit, when it took place in spite of the error; None when nothing is visible.

    Raises UnknownOutcomeError, and CorruptTableError where another writer completed the instant.
    What was interrupted stays so: such an outcome is logged then.
    """
    is_interrupted = not isinstance(error, Exception)
    found = transaction.abort(patiently=not is_interrupted)
    if isinstance(found, Unknown | CompletedByAnother):
        failure = _error_of(transaction, found)
        if not is_interrupted:
            raise failure from error
        _log.warning("%s", failure)
        return None
    if found is not None:
        _log.warning("commit %s took place in spite of: %s", transaction.instant, error)
    return None if is_interrupted else found


def _error_of(transaction: WriteTransaction, found: Unknown | CompletedByAnother) -> TidelineError:
    table = transaction.table.location.uri
    if isinstance(found, CompletedByAnother):
        return foreign_completion_error(found, table=table)
    token = transaction.request.token.token if transaction.request.token else None
    return unknown_error(found, table=table, token=token)


def _done(
    transaction: WriteTransaction,
    committed: Committed,
    seconds: float,
    spent: ResourceUsage,
    undeclared: tuple[str, ...],
) -> WriteDone:
    table, request = transaction.table, transaction.request
    searched = request.token.notes if request.token else ()
    warning = table.instants.known_zone(transaction.timeline).warning
    warnings = (warning,) if warning is not None else ()
    kept = reported_uniqueness(table.config, request.operation, request.config)
    return WriteDone(
        request.operation,
        committed,
        tuple(transaction.rolled_back),
        seconds,
        spent,
        notes=(*searched, *warnings, *undeclared, *request.schema_change.notes),
        keys_unique_in=None if kept is None else kept.value,
        schema_change=request.schema_change,
    )


def _repeated(request: WriteRequest, repeated: Repeated) -> WriteDone:
    return WriteDone(
        request.operation, repeated.committed, repeated.rolled_back, 0.0, is_repeat=True
    )
