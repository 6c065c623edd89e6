"""A warm worker: carries out operations that are handed to it, one after another.

1. It waits for an operation, and ends once none has come for a while, or after its lifetime.
2. The report on the operation before must have reached the status; then it shows what it takes,
   reads the table, and begins unless the status objects. In this order: a controller that takes an
   operation back first changes the status and then looks at what the worker shows.
3. It carries the operation out as a driver does, with heartbeats in its pod's name. Behind an
   ingest of records that come all the time it stays on the table for a while (`stay`).
4. It shows the result, and makes itself new: Spark's session, the environment and the current
   folder are as they were before.

Whatever it cannot be sure to have left behind ends it: an unforeseen error, a Java that died, a
signal. An operation that it has not shown to have taken has not begun.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.ingest.execute.execute_operation import execute_operation, failed_result
from tideline.ingest.execute.table_access import Progress
from tideline.ingest.operation.assignment import (
    HAND_OVER_REFUSED,
    Assignment,
    WorkerReport,
    is_acknowledged,
    is_altered,
    objection,
)
from tideline.ingest.operation.operation import Operation, writer_name
from tideline.ingest.operation.result import STOPPED, WORKER_DIED, OperationResult, Outcome
from tideline.ingest.workers.assignments import ApiSilentError, Assignments
from tideline.ingest.workers.stay import stay_on_table
from tideline.storage.location import StoreLocation
from tideline.tracing import AttemptSpans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOPPED_EXIT_CODE = 143
_PAUSE_S = 0.2
_SETTLED_S = 0.05
_ACKNOWLEDGED_S = 120.0
_REACHED_S = 300.0

Answer = TypeVar("Answer")


class KeptSpark(Protocol):
    """Spark, started when an operation needs it and kept for the next ones."""

    def open(self, locations: Iterable[StoreLocation], /) -> SparkSession:
        """The session of this operation, connected to the locations."""

    def reset(self) -> None:
        """Leave nothing of an operation."""

    def has_died(self) -> bool:
        """Whether Java was started and is gone."""


class WorkerEnd(Enum):
    """Why a worker ends."""

    IDLE = "no operation came"
    OLD = "its lifetime is over"
    STOPPED = "it was asked to stop"
    SPENT = "what it did may have left something behind"
    UNHEARD = "its report did not reach the table's status"


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """How long a worker waits for the next operation, and how long it takes any."""

    idle_s: float
    lifetime_s: float


class WarmWorker:
    """See the module. `is_stopping` says whether the process was asked to stop."""

    def __init__(
        self,
        assignments: Assignments,
        spark: KeptSpark,
        pod_uid: str,
        limits: WorkerLimits,
        clock: Clock,
        *,
        is_stopping: Callable[[], bool],
        progress: Progress,
    ) -> None:
        self._assignments = assignments
        self._spark = spark
        self._uid = pod_uid
        self._limits = limits
        self._clock = clock
        self._is_stopping = is_stopping
        self._progress = progress
        self._newest: tuple[Assignment, WorkerReport] | None = None
        self.executing: Assignment | None = None
        """What is being carried out."""
        self.is_waiting = False
        """Whether it waits for the next operation."""

    def run(self) -> WorkerEnd:
        """Carry out what is handed over, until the end."""
        started_s = idle_since_s = self._clock.monotonic_s()
        while True:
            now_s = self._clock.monotonic_s()
            if self._is_stopping():
                return WorkerEnd.STOPPED
            if now_s - started_s >= self._limits.lifetime_s:
                return WorkerEnd.OLD
            left_s = min(
                idle_since_s + self._limits.idle_s - now_s,
                started_s + self._limits.lifetime_s - now_s,
            )
            if left_s <= 0:
                return WorkerEnd.IDLE
            self.is_waiting = True
            try:
                assignment = self._assignments.next(left_s)
            except KeyboardInterrupt:
                return WorkerEnd.STOPPED
            finally:
                self.is_waiting = False
            if assignment is None:
                continue
            end = self._take(assignment)
            if end is not None:
                return end
            idle_since_s = self._clock.monotonic_s()

    def stopped(self, words: str) -> OperationResult | None:
        """The result of what is being carried out when a signal ends it."""
        if self.executing is None:
            return None
        return _stopped(self.executing.operation_id, words)

    def show(self, result: OperationResult) -> None:
        """The result of what is being carried out, for an end that cannot wait."""
        if self.executing is not None:
            assignment = self.executing
            report = WorkerReport(assignment.operation_id, assignment.attempt, result)
            self._assignments.show(report, None)

    def _take(self, assignment: Assignment) -> WorkerEnd | None:
        if not self._is_heard():
            return WorkerEnd.UNHEARD
        before = None if self._newest is None else self._newest[1]
        taken = WorkerReport(assignment.operation_id, assignment.attempt)
        self._insist(lambda: self._assignments.show(taken, assignment))
        table = self._insist(lambda: self._assignments.table(assignment.table))
        reason = objection(assignment, table, self._uid)
        if self._is_stopping():
            reason = reason or "this worker was asked to stop"
        if reason is not None or table is None:
            self._progress(f"left {assignment.operation_id} alone: {reason}")
            self._insist(lambda: self._assignments.show(before, None))
            self._forget(assignment)
            return None
        self._progress(f"begins {assignment.operation_id} of {assignment.table}")
        if is_altered(assignment, table):
            result, is_spent = _refused(assignment), False
        else:
            uid = str(table["metadata"]["uid"])
            spans = AttemptSpans.of(uid, assignment.operation_id, assignment.attempt)
            at_work = _AtWork(assignment, table, spans.job.traceparent)
            result, is_spent = self._carry_out(at_work)
        words = f"{result.outcome}: {result.message}" if result.message else str(result.outcome)
        self._progress(f"ended {assignment.operation_id}: {words}")
        report = WorkerReport(assignment.operation_id, assignment.attempt, result)
        self._newest = assignment, report
        if not self._tell(report):
            return WorkerEnd.UNHEARD
        self._forget(assignment)
        if self._is_stopping():
            return WorkerEnd.STOPPED
        return WorkerEnd.SPENT if is_spent else None

    def _carry_out(self, at_work: _AtWork) -> tuple[OperationResult, bool]:
        """The result, and whether this process is to be used no more."""
        assignment = at_work.assignment
        environment, folder = dict(os.environ), Path.cwd()
        self.executing = assignment
        try:
            result, is_spent = self._execute(at_work)
        except KeyboardInterrupt:
            result = _stopped(assignment.operation_id, "what it had begun was undone")
            is_spent = True
        finally:
            self.executing = None
        if self._is_stopping() and result.outcome is Outcome.FAILED:
            result = _stopped(assignment.operation_id, "what it had begun was undone")
        if is_spent or self._is_stopping():
            return result, True
        return result, not self._made_new(environment, folder)

    def _execute(self, at_work: _AtWork) -> tuple[OperationResult, bool]:
        assignment = at_work.assignment
        operation_id = assignment.operation_id
        is_spent = False
        execute = partial(
            execute_operation,
            session_factory=self._spark.open,
            clock=self._clock,
            progress=self._progress,
            traceparent=at_work.traceparent,
        )
        try:
            operation: Operation = assignment.operation
            operation = replace(operation, writer=writer_name(operation_id, self._uid))
            result = stay_on_table(
                operation,
                execute(operation),
                assignment.stay,
                execute,
                self._clock,
                may_stay=lambda: self._may_stay(at_work),
                progress=self._progress,
            )
        except TidelineError as error:
            result = failed_result(operation_id, error)
        except Exception as error:
            traceback.print_exc()
            result, is_spent = failed_result(operation_id, error), True
        if result.outcome is Outcome.FAILED and self._spark.has_died():
            reason = "Java exited, most likely for lack of memory (spec.resources.driver.memory)"
            message = f"{reason}; {result.message}"
            return replace(result, error=WORKER_DIED, message=message), True
        return replace(result, id=operation_id), is_spent

    def _may_stay(self, at_work: _AtWork) -> bool:
        """Whether the LakeTable is as it was, and still names the operation."""
        if self._is_stopping():
            return False
        try:
            table = self._assignments.table(at_work.assignment.table)
        except ApiSilentError as error:
            self._progress(str(error))
            return False
        if objection(at_work.assignment, table, self._uid) is not None or table is None:
            return False
        return _declared(table) == _declared(at_work.table)

    def _made_new(self, environment: dict[str, str], folder: Path) -> bool:
        """Undo what an operation may have changed in this process; False when that fails."""
        try:
            self._spark.reset()
            if dict(os.environ) != environment:
                os.environ.clear()
                os.environ.update(environment)
            os.chdir(folder)
            if "pyarrow" in sys.modules:
                sys.modules["pyarrow"].default_memory_pool().release_unused()
        except Exception:
            traceback.print_exc()
            return False
        return True

    def _is_heard(self) -> bool:
        """Wait until the status has the report on the operation before."""
        if self._newest is None:
            return True
        assignment, report = self._newest
        until_s = self._clock.monotonic_s() + _ACKNOWLEDGED_S
        while self._clock.monotonic_s() < until_s:
            table = self._insist(lambda: self._assignments.table(assignment.table))
            if is_acknowledged(report, table):
                return True
            self._clock.sleep(_SETTLED_S)
        return False

    def _tell(self, report: WorkerReport) -> bool:
        """Show a result; the termination message has it even where this returns False."""
        until_s = self._clock.monotonic_s() + _REACHED_S
        while True:
            try:
                self._assignments.show(report, None)
            except KeyboardInterrupt:
                # A signal that came for the operation; the worker ends after this.
                continue
            except ApiSilentError as error:
                self._progress(str(error))
                if self._clock.monotonic_s() > until_s or self._is_stopping():
                    return False
                self._clock.sleep(_PAUSE_S * 5)
            else:
                return True

    def _insist(self, ask: Callable[[], Answer]) -> Answer:
        """The answer, however long it takes: nothing has begun yet."""
        while True:
            try:
                return ask()
            except ApiSilentError as error:
                self._progress(str(error))
                self._clock.sleep(_PAUSE_S * 5)

    def _forget(self, assignment: Assignment) -> None:
        try:
            self._assignments.forget(assignment)
        except ApiSilentError as error:
            # It goes with the pod.
            self._progress(str(error))


@dataclass(frozen=True, slots=True)
class _AtWork:
    """An assignment, its LakeTable as it was when the worker began, and the span of the attempt."""

    assignment: Assignment
    table: Mapping[str, Any]
    traceparent: str


def _declared(table: Mapping[str, Any]) -> tuple[object, ...]:
    """What a user has said of a table, pauses included."""
    metadata = table["metadata"]
    return metadata.get("uid"), metadata.get("generation"), metadata.get("annotations")


def _refused(assignment: Assignment) -> OperationResult:
    return OperationResult(
        assignment.operation_id,
        Outcome.FAILED,
        message="what was handed over is not the operation that the table's status names",
        exit_code=1,
        error=HAND_OVER_REFUSED,
    )


def _stopped(operation_id: str, words: str) -> OperationResult:
    return OperationResult(
        operation_id,
        Outcome.FAILED,
        message=f"stopped by SIGTERM before it was done; {words}",
        exit_code=STOPPED_EXIT_CODE,
        error=STOPPED,
    )
