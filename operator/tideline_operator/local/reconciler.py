"""The embedded reconciler: look, plan, do one thing, look again, until a signal.

One operation at a time, one table after the other. Every round starts from a fresh look at the
table; the status files only prevent looking too often and retrying too soon.

With `once` it ends when nothing is due: it waits for files that may not be completely written yet,
and retries a few times what is safe to retry.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from tideline.clock import Clock
from tideline.errors import StorageUnavailableError, TidelineError
from tideline.ingest.operation.operation import Operation, OperationKind
from tideline.ingest.operation.result import WORKER_DIED, OperationResult, Outcome
from tideline.ingest.sources.source import HeldUp
from tideline_operator.decide.actions import Blocked, PlannedAction, Start, Wait, WaitKind
from tideline_operator.decide.planner import plan
from tideline_operator.launch.launcher import Died, Finished, Launcher, Progressed
from tideline_operator.local.rehearsal import sql_checks
from tideline_operator.local.run_lock import RunLock
from tideline_operator.local.status_file import read_status, write_status
from tideline_operator.local.table_files import TableFiles
from tideline_operator.observe.observation import Observer
from tideline_operator.report.failures import unresolved_failures
from tideline_operator.report.run_report import Reporter
from tideline_operator.report.status import (
    fresh_start,
    observed_status,
    operation_finished,
    operation_started,
)
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

ONCE_ATTEMPTS_MAX = 3
ONCE_SETTLE_ROUNDS_MAX = 30
_BEGINNINGS = (OperationKind.CREATE, OperationKind.INGEST)
_EVENT_TIMEOUT_S = 0.2
_WATCH_S = 2.0
RESYNC_MS = 300_000
"""A table is looked at this often even when there is nothing to wait for."""
IDLE_WORKER_MS = 600_000
SET_ASIDE = 6
"""Exit code where nothing else went wrong and files, or rows of files, wait in a quarantine: these
rows are not in the table."""


@dataclass(slots=True)
class _Round:
    """What one round over all tables found."""

    has_worked: bool
    waits: list[Wait]


class Reconciler:
    """Keeps the tables as their resources declare them. `run` returns an exit code."""

    def __init__(
        self,
        files: TableFiles,
        launcher: Launcher,
        reporter: Reporter,
        lock: RunLock,
        *,
        state_folder: Path,
        clock: Clock,
    ) -> None:
        self._files = files
        self._launcher = launcher
        self._reporter = reporter
        self._lock = lock
        self._state_folder = state_folder
        self._clock = clock
        self._observer = Observer(clock)
        self._statuses: dict[str, LakeTableStatus] = {}
        self._blocked: dict[str, tuple[Blocked, ...]] = {}
        self._set_aside: dict[tuple[str, str], bool] = {}
        self._held_up: dict[tuple[str, str], tuple[HeldUp, ...]] = {}
        self._checked: dict[str, tuple[Ingest, ...]] = {}
        self._stop = threading.Event()
        self._signal: int | None = None
        self._abandoned = False
        self._worked_at_ms = clock.now_ms()

    def run(self, *, once: bool) -> int:
        """Reconcile until nothing is due (`once`) or until a signal."""
        settle_rounds = 0
        while not self._stop.is_set():
            found = self._round()
            if self._stop.is_set() or found.has_worked:
                continue
            if once:
                waits = [wait for wait in found.waits if self._is_worth_waiting(wait)]
                settle_rounds += 1
                if not waits or settle_rounds > ONCE_SETTLE_ROUNDS_MAX:
                    self._note_held_up()
                    return self._exit_code()
                found.waits = waits
            self._rest(found.waits, watches_files=not once)
        if self._signal is None:
            return self._exit_code()
        return 128 + self._signal if once or self._abandoned else 0

    def request_stop(self, number: int, _: FrameType | None) -> None:
        """Signal handler: the first lets the operation under way finish, the second does not."""
        if self._stop.is_set():
            self._abandoned = True
        elif self._launcher.running:
            self._reporter.note("stopping after this operation; a second signal abandons it")
        self._signal = number
        self._stop.set()

    def listen_to_signals(self) -> None:
        """Stop cleanly on SIGINT and SIGTERM. Call from the main thread."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.request_stop)

    def _round(self) -> _Round:
        found = _Round(False, [])
        self._look_for_tables()
        for table in self._files.tables:
            actions = self._look(table)
            start = next((action for action in actions if isinstance(action, Start)), None)
            if start is not None:
                self._carry_out(table, start)
                found.has_worked = True
            else:
                services = self._statuses[table.name].services
                self._reporter.resting(table.name, actions, services, self._clock.now_ms())
                found.waits += [action for action in actions if isinstance(action, Wait)]
            if self._stop.is_set():
                break
        self._files.move_slots(self._reporter.note, is_idle=not found.has_worked)
        return found

    def _look_for_tables(self) -> None:
        """Take in the tables that catalogs and sources have got since. Raises ConflictError where
        another run has one."""
        self._files.look_for_tables(self._reporter.note)
        self._lock.hold(self._files.tables)

    def _look(self, table: ResolvedTable) -> tuple[PlannedAction, ...]:
        """Observe and plan; the status is kept."""
        status = self._statuses.get(table.name)
        if status is None:
            status = fresh_start(table, read_status(self._state_folder, table))
        observed = self._observer.observe(table, status, running=self._launcher.running)
        checkpoints = observed.checkpoints if observed.has_table else None
        self._files.sources.note_checkpoints(table, checkpoints)
        now_ms = self._clock.now_ms()
        actions = plan(table, status, observed, now_ms)
        self._blocked[table.name] = tuple(item for item in actions if isinstance(item, Blocked))
        for name, seen in observed.sources.items():
            if seen.available is None:
                continue
            self._files.note_source(table, name, seen.available, self._reporter.note)
            self._held_up[table.name, name] = seen.available.held_up()
            if seen.available.is_whole:
                self._set_aside[table.name, name] = seen.available.set_aside.words is not None
        self._keep(table, observed_status(table, status, observed, actions, now_ms))
        return actions

    def _carry_out(self, table: ResolvedTable, start: Start) -> None:
        operation = start.operation
        status = self._statuses[table.name]
        self._keep(table, operation_started(status, operation, start.attempt, self._clock.now_ms()))
        lag = status.ingest.get(operation.subject)
        self._reporter.started(table.name, start, files_waiting=lag.lag_files if lag else 0)
        result = self._refusal(table, operation) or self._launched(table, operation)
        self._worked_at_ms = self._clock.now_ms()
        if result.skipped or result.rows_set_aside:
            self._set_aside[table.name, operation.subject] = True
        done = operation_finished(self._statuses[table.name], result, self._clock.now_ms())
        self._keep(table, done)
        self._reporter.finished(table.name, operation, result)

    def _refusal(self, table: ResolvedTable, operation: Operation) -> OperationResult | None:
        """A failure where the SQL of the table's ingests is none: before anything is written, and
        once for each spec."""
        ingests = table.spec.ingest
        if operation.kind not in _BEGINNINGS or self._checked.get(table.name) == ingests:
            return None
        for check in sql_checks(table):
            result = self._launched(table, check)
            if result.outcome is Outcome.FAILED:
                return replace(result, id=operation.id)
        self._checked[table.name] = ingests
        return None

    def _launched(self, table: ResolvedTable, operation: Operation) -> OperationResult:
        self._launcher.start(operation)
        return self._await_result(table, operation.id)

    def _await_result(self, table: ResolvedTable, operation_id: str) -> OperationResult:
        while True:
            if self._abandoned:
                self._launcher.abandon()
                return _lost(operation_id, "abandoned; the next run rolls back what it left")
            match self._launcher.next_event(_EVENT_TIMEOUT_S):
                case Progressed(text=text):
                    self._reporter.progressed(table.name, text)
                case Finished(result=result) if result.id == operation_id:
                    return result
                case Died(operation_id=lost, message=message) if lost == operation_id:
                    return _lost(operation_id, message)

    def _keep(self, table: ResolvedTable, status: LakeTableStatus) -> None:
        if self._statuses.get(table.name) == status:
            return
        self._statuses[table.name] = status
        write_status(self._state_folder, table, status)

    def _is_worth_waiting(self, wait: Wait) -> bool:
        """Whether `once` waits for it: settling files, and retries that may help by themselves."""
        if wait.kind is WaitKind.SETTLE:
            return True
        if wait.kind is not WaitKind.RETRY or wait.operation_id is None:
            return False
        return any(
            item.id == wait.operation_id
            and item.is_safe_to_retry
            and item.attempt < ONCE_ATTEMPTS_MAX
            for status in self._statuses.values()
            for item in status.operations
        )

    def _rest(self, waits: Iterable[Wait], *, watches_files: bool) -> None:
        """Sleep until the first wait is over, a resource file changes or a signal comes."""
        now_ms = self._clock.now_ms()
        until_ms = min((wait.until_ms for wait in waits), default=now_ms + RESYNC_MS)
        until_ms = min(until_ms, now_ms + RESYNC_MS, self._files.due_ms or now_ms + RESYNC_MS)
        while not self._stop.is_set() and now_ms < until_ms:
            self._stop.wait(min(_WATCH_S, (until_ms - now_ms) / 1000))
            if watches_files and self._reload():
                return
            now_ms = self._clock.now_ms()
            if now_ms - self._worked_at_ms > IDLE_WORKER_MS:
                # An idle Spark holds memory; the next operation starts a new one.
                self._launcher.close()

    def _reload(self) -> bool:
        try:
            if not self._files.reload_if_changed(self._lock.hold):
                return False
            self._reporter.note("the resource files changed")
        except TidelineError as error:
            self._reporter.note(f"the changed resource files are not used:\n{error}")
        return True

    def _note_held_up(self) -> None:
        """What was there and is not in the tables, for a run that ends."""
        for (table, name), found in self._held_up.items():
            for item in found:
                if not item.is_fault:
                    # A fault was noted when it was met.
                    self._reporter.note(f"{table}  {name}: {item.words}")

    def _exit_code(self) -> int:
        """The code of what is left undone."""
        codes: set[int] = set()
        for table in self._files.tables:
            codes |= {item.exit_code for item in self._blocked.get(table.name, ())}
            status = self._statuses.get(table.name, LakeTableStatus())
            codes |= {item.exit_code or 1 for item in unresolved_failures(status)}
        codes |= {problem.exit_code for problem in self._files.problems}
        if any(self._set_aside.values()):
            codes.add(SET_ASIDE)
        if any(item.is_fault for found in self._held_up.values() for item in found):
            codes.add(StorageUnavailableError.exit_code)
        return most_severe(codes)


def most_severe(codes: Collection[int]) -> int:
    """The one of these exit codes that a run ends with: usage, then data, first."""
    return next((code for code in (2, 1, 4, 3, SET_ASIDE) if code in codes), 0)


def _lost(operation_id: str, message: str) -> OperationResult:
    return OperationResult(
        operation_id, Outcome.FAILED, message=message, exit_code=1, error=WORKER_DIED
    )
