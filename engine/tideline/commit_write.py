"""One write as its caller sees it: a commit that took place, or an error that says what to do.

1. Roll back and sweep up what dead writers left, then look for the write's token: a write that took
   place already is reported again, and nothing is written.
2. Write and commit inside a transaction (tideline.hudi.write.transaction).
3. Whatever fails, the transaction finds out what became of it: committed after all, undone, or
   unknown. Only what is certainly undone leaves as an error that is safe to retry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tideline.commit_report import CommitReport, report_commit
from tideline.hudi.nature.guard import require_by_properties
from tideline.hudi.recovery.execute import (
    FailedWrites,
    RolledBack,
    execute_failed_writes_rollback,
    execute_rollback,
    remove_files_of,
)
from tideline.hudi.recovery.sweep import sweep_leftovers
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.carried_metadata import carried_metadata
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.conflict import Conflicted
from tideline.hudi.write.operation import WriteOperation
from tideline.hudi.write.outcome import Committed, Unknown, conflict_error, unknown_error
from tideline.hudi.write.token import TokenSearch, TokenTakenError
from tideline.hudi.write.transaction import WriteTransaction
from tideline.hudi.write.unique_keys import told_uniqueness, undeclared_index
from tideline.hudi.write.upsert import Written

_log = logging.getLogger(__name__)

Requirement = Callable[[ActiveTimeline], None]
"""Asked under the table lock, just before a commit completes; raises to prevent it."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What is to be committed, whichever engine moves the rows."""

    operation: WriteOperation
    config: WriteConfig
    schema_json: str
    extra_metadata: Mapping[str, str]
    require: Requirement | None = None
    token: TokenSearch | None = None


def commit_write(
    table: HoodieTable,
    request: WriteRequest,
    write: Callable[[WriteTransaction], Written],
    failed_writes: FailedWrites,
) -> CommitReport:
    """Run one transaction; whatever fails inside is undone before the error goes on.

    Raises ConflictError when another write got in the way, UnknownOutcomeError when the store went
    away while the commit became visible, and what `write` raises.
    """
    require_by_properties(table, request.operation.permission)
    return _WriteRun(table, request, failed_writes).run(write)


def repeated_write(table: HoodieTable, request: WriteRequest) -> CommitReport | None:
    """The report of the write that the request's token names, if it took place already."""
    if request.token is None:
        return None
    found = request.token.find(table.timeline(), is_locked=False)
    return None if found is None else _report_repeated(request, found)


class _WriteRun:
    """One transaction on its way."""

    def __init__(
        self, table: HoodieTable, request: WriteRequest, failed_writes: FailedWrites
    ) -> None:
        self._table = table
        self._request = request
        self._failed_writes = failed_writes
        self._started_s = table.clock.monotonic_s()
        self._rolled_back: list[RolledBack] = []

    def run(self, write: Callable[[WriteTransaction], Written]) -> CommitReport:
        request = self._request
        try:
            transaction = WriteTransaction.begin(
                self._table,
                request.operation,
                request.config,
                recover=self._recover,
                withdraw=self._withdraw,
                extra_metadata=request.token.extra_metadata if request.token else {},
            )
        except TokenTakenError as taken:
            return _report_repeated(request, taken.committed, self._rolled_back)
        try:
            written = write(transaction)
            outcome = transaction.commit(
                written.stats, extra_metadata=self._metadata, replaced=written.replaced
            )
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            found = self._outcome_of_failure(transaction, error)
            if found is None:
                if isinstance(error, TokenTakenError):
                    return _report_repeated(request, error.committed, self._rolled_back)
                raise
            outcome = found
        if isinstance(outcome, Conflicted):
            _abort(transaction)
            raise conflict_error(
                outcome, table=self._table.location.uri, instant=transaction.instant
            )
        seconds = self._table.clock.monotonic_s() - self._started_s
        report = report_commit(request.operation, outcome, self._rolled_back, seconds)
        searched = request.token.notes if request.token else ()
        warning = self._table.known_zone(transaction.timeline).warning
        warnings = (warning,) if warning is not None else ()
        kept = told_uniqueness(self._table.config, request.operation, request.config)
        undeclared = undeclared_index(self._table, request.operation, request.config)
        return replace(
            report,
            notes=(*report.notes, *searched, *warnings, *undeclared),
            keys_unique_in=None if kept is None else kept.value,
        )

    def _outcome_of_failure(
        self, transaction: WriteTransaction, error: BaseException
    ) -> Committed | None:
        """The commit, when it took place in spite of the error; None when nothing is visible.

        Raises UnknownOutcomeError. What was interrupted stays so: an unknown outcome is logged
        then.
        """
        is_interrupted = not isinstance(error, Exception)
        found = _abort(transaction, patiently=not is_interrupted)
        if isinstance(found, Unknown):
            token = self._request.token.token if self._request.token else None
            unknown = unknown_error(found, table=self._table.location.uri, token=token)
            if not is_interrupted:
                raise unknown from error
            _log.warning("%s", unknown)
            return None
        if found is not None:
            _log.warning("Commit %s took place in spite of: %s", transaction.instant, error)
        return None if is_interrupted else found

    def _recover(self, timeline: ActiveTimeline) -> bool:
        """Under the lock, before a write begins."""
        table, policy, token = self._table, self._failed_writes, self._request.token
        self._rolled_back.extend(execute_failed_writes_rollback(table, timeline, policy))
        sweep_leftovers(table, timeline, policy)
        if token is not None:
            now = table.timeline() if self._rolled_back else timeline
            self._refuse_repeated(token, now)
            token.require_not_pending(now, self._request.config.heartbeat)
        return bool(self._rolled_back)

    def _metadata(self, now: ActiveTimeline) -> Mapping[str, str]:
        """Under the lock, just before the commit completes."""
        request = self._request
        named: Mapping[str, str] = {}
        if request.token is not None:
            self._refuse_repeated(request.token, now)
            named = request.token.extra_metadata
        if request.require is not None:
            request.require(now)
        carried = carried_metadata(self._table, now)
        return {**carried, **request.extra_metadata, **named, "schema": request.schema_json}

    def _refuse_repeated(self, token: TokenSearch, now: ActiveTimeline) -> None:
        found = token.find(now, is_locked=True)
        if found is not None:
            raise TokenTakenError(found, table=self._table.location.uri)

    def _withdraw(self, clustering: Instant) -> None:
        is_alive = not self._failed_writes.is_dead(self._table, clustering.time)
        undone = execute_rollback(self._table, clustering, is_alive=is_alive)
        if undone is not None:
            self._rolled_back.append(undone)


def _abort(transaction: WriteTransaction, *, patiently: bool = True) -> Committed | Unknown | None:
    """Undo a write. Once others may have rolled it back its markers are not to be relied on."""
    table = transaction.table

    def undo(time: InstantTime, pending: Instant | None) -> None:
        if pending is None:
            remove_files_of(table, time)
        else:
            execute_rollback(table, pending, lists_files=transaction.was_given_up)

    return transaction.abort(undo, patiently=patiently)


def _report_repeated(
    request: WriteRequest, committed: Committed, rolled_back: list[RolledBack] | None = None
) -> CommitReport:
    report = report_commit(request.operation, committed, rolled_back or (), 0.0)
    note = f"this write took place already, as {report.instant}; nothing was written"
    return replace(report, notes=(note, *report.notes), is_repeat=True)
