"""`tideline execute --operation FILE`: one operation that a planner wrote down.

What a Kubernetes Job runs. Progress goes to stderr as plain lines; the result is one JSON line on
stdout and, in a pod, its termination message: the file that TIDELINE_TERMINATION_LOG names, or
Kubernetes' own. Every end that Python lives to see has a result: unforeseen errors, a Java that
died, and SIGTERM, after which TIDELINE_GRACE_S seconds are left.

In a pod its heartbeats carry a name made of the operation and POD_UID, so that the operator knows
which instants a dead pod left. With TIDELINE_SPARK_PODS in the environment Spark runs on
Kubernetes, with executors in pods.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tideline.cli.output import print_line
from tideline.cli.progress import end_progress
from tideline.cli.stop_signal import EXIT_CODE, StopSignal
from tideline.clock import finish_later
from tideline.errors import TidelineError
from tideline.ingest.execute.execute_operation import (
    execute_operation,
    failed_result,
    read_operation,
)
from tideline.ingest.executors.event_logs import event_log_conf, make_event_log_folder
from tideline.ingest.executors.executor_admission import (
    EXECUTORS_REFUSED,
    ExecutorsRefusedError,
    check_executors,
)
from tideline.ingest.executors.kubernetes_account import KubernetesAccount
from tideline.ingest.executors.kubernetes_pods import (
    SPARK_PODS_VARIABLE,
    SparkPods,
    ThisPod,
    spark_settings,
)
from tideline.ingest.operation.operation import Operation, writer_name
from tideline.ingest.operation.result import STOPPED, WORKER_DIED, OperationResult, Outcome
from tideline.own_process import collect_rarely
from tideline.storage.location import StoreLocation
from tideline.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TERMINATION_LOG_VARIABLE = "TIDELINE_TERMINATION_LOG"
GRACE_VARIABLE = "TIDELINE_GRACE_S"
POD_UID_VARIABLE = "POD_UID"

_TERMINATION_LOG = Path("/dev/termination-log")
_GRACE_S = 30.0
_STOP_S_MAX = 20.0


def run_operation(path: str, environment: Mapping[str, str] = os.environ) -> int:
    """Carry out the operation in the file; returns the exit code of its result."""
    operation = read_operation(Path(path))
    if uid := environment.get(POD_UID_VARIABLE):
        operation = replace(operation, writer=writer_name(operation.id, uid))
    run = _Run(operation, environment)
    if run.is_on_kubernetes:
        collect_rarely()
    result = run.carry_out()
    if run.is_on_kubernetes:
        # Threads of a half-dead Spark must not keep the pod alive.
        run.stop_spark()
        finish_later()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(result.exit_code)
    return result.exit_code


class _Run:
    """One operation from its start to its published result."""

    def __init__(self, operation: Operation, environment: Mapping[str, str]) -> None:
        self._operation = operation
        self._environment = environment
        self._session: SparkSession | None = None
        self._publishing = threading.Lock()

    @property
    def is_on_kubernetes(self) -> bool:
        """Whether Spark's executors are pods."""
        return bool(self._environment.get(SPARK_PODS_VARIABLE))

    def carry_out(self) -> OperationResult:
        grace_s = float(self._environment.get(GRACE_VARIABLE) or _GRACE_S)
        with StopSignal(grace_s, self._cancel_spark, self._run_out_of_time) as stop:
            try:
                result = self._execute()
                if stop.is_requested and result.outcome is Outcome.FAILED:
                    result = self._stopped("what it had begun was undone")
            except KeyboardInterrupt:
                if not stop.is_requested:
                    raise
                result = self._stopped("what it had begun was undone")
            stop.settled()
            self._publish(result)
        return result

    def stop_spark(self) -> None:
        """End the session and its executors, unless that takes too long."""
        if self._session is None:
            return
        ending = threading.Thread(target=self._session.stop, name="stop-spark", daemon=True)
        ending.start()
        ending.join(_STOP_S_MAX)

    def _execute(self) -> OperationResult:
        try:
            result = execute_operation(
                self._operation, session_factory=self._open_session, progress=_print_progress
            )
        except Exception as error:
            traceback.print_exc()
            result = failed_result(self._operation.id, error)
        if result.outcome is Outcome.FAILED:
            result = self._with_refusal(result)
        if result.outcome is Outcome.FAILED and self._has_lost_java():
            reason = "Java exited, most likely for lack of memory (spec.resources.driver.memory)"
            return replace(result, error=WORKER_DIED, message=f"{reason}; {result.message}")
        return result

    def _with_refusal(self, result: OperationResult) -> OperationResult:
        """The failure in the cluster's words when it is that no executor is let in.

        Spark gives up after some executors that failed, and then says only that it has stopped.
        """
        if not self.is_on_kubernetes or self._session is None or result.error == EXECUTORS_REFUSED:
            return result
        try:
            self._check_executors()
        except ExecutorsRefusedError as refusal:
            return failed_result(result.id, refusal)
        except TidelineError:
            pass
        return result

    def _check_executors(self) -> tuple[SparkPods, ThisPod]:
        pods = SparkPods.read(Path(self._environment[SPARK_PODS_VARIABLE]))
        pod = ThisPod.of(self._environment)
        check_executors(pods, pod, KubernetesAccount())
        return pods, pod

    def _open_session(self, locations: Iterable[StoreLocation]) -> SparkSession:
        # Operations that move no rows run where Spark is not installed.
        from tideline.spark.session.spark_session import spark_session

        name = f"tideline {self._operation.id}"
        if self.is_on_kubernetes:
            pods, pod = self._check_executors()
            executors = counted(pods.executors_max, "executor")
            _print_progress(f"starting Spark with at most {executors}")
            settings = spark_settings(pods, pod)
            if pods.event_logs:
                options = dict(self._operation.table.location.options)
                logs = StoreLocation.of(pods.event_logs, options)
                make_event_log_folder(logs)
                settings |= event_log_conf(logs)
                locations = [*locations, logs]
            session = spark_session(
                name, master=pod.master, locations=locations, extra_conf=settings
            )
        else:
            session = spark_session(name, locations=locations)
        # A cancelled task ends at once, and does not continue writing its file.
        session.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
        self._session = session
        return session

    def _cancel_spark(self) -> bool:
        """Cancel what runs on Spark; False when Spark has not been started."""
        if self._session is None:
            return False
        with contextlib.suppress(Exception):
            self._session.sparkContext.cancelAllJobs()
        return True

    def _has_lost_java(self) -> bool:
        if self._session is None:
            return False
        from tideline.spark.source_files.landed_rows import is_alive

        return not is_alive(self._session)

    def _stopped(self, words: str) -> OperationResult:
        return OperationResult(
            self._operation.id,
            Outcome.FAILED,
            message=f"stopped by SIGTERM before it was done; {words}",
            exit_code=EXIT_CODE,
            error=STOPPED,
        )

    def _run_out_of_time(self) -> None:
        self._publish(self._stopped("the next operation rolls back what it left"))

    def _publish(self, result: OperationResult) -> None:
        """Say how it ended, once."""
        if not self._publishing.acquire(blocking=False):
            return
        text = result.to_json()
        try:
            if log := _termination_log(self._environment):
                log.write_text(text, encoding="utf-8")
        except OSError as error:
            _print_progress(f"the termination message cannot be written: {error}")
        print_line(text)
        sys.stdout.flush()


def _termination_log(environment: Mapping[str, str]) -> Path | None:
    named = environment.get(TERMINATION_LOG_VARIABLE)
    if named:
        return Path(named)
    return _TERMINATION_LOG if _TERMINATION_LOG.is_file() else None


def _print_progress(text: str) -> None:
    end_progress()
    print(f"tideline: {text}", file=sys.stderr, flush=True)
