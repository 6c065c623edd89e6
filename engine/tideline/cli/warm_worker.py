"""`python -P -m tideline.cli.warm_worker`: what the pod of a warm worker runs.

TIDELINE_IDLE_S and TIDELINE_LIFETIME_S say how long it waits for an operation, and how long it
takes any, TIDELINE_SPARK_CONF is Spark configuration, as JSON. Spark runs on the pod's own
processors, without executors: large work is not handed to workers. Progress goes to stderr as plain
lines; the newest report is the pod's termination message.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tideline.cli.execute_operation import (
    GRACE_VARIABLE,
    POD_UID_VARIABLE,
    TERMINATION_LOG_VARIABLE,
)
from tideline.cli.progress import end_progress
from tideline.cli.stop_signal import EXIT_CODE, StopSignal
from tideline.clock import SystemClock, finish_later
from tideline.errors import ConfigError
from tideline.ingest.executors.kubernetes_account import KubernetesAccount
from tideline.ingest.executors.kubernetes_pods import ThisPod, heap_mib
from tideline.ingest.workers.assignments import Assignments, PodAssignments
from tideline.ingest.workers.warm_worker import WarmWorker, WorkerEnd, WorkerLimits
from tideline.machine import memory_bytes
from tideline.masked_stream import mask_standard_error
from tideline.own_process import collect_rarely
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tideline.spark.session.kept_session import KeptSession

IDLE_VARIABLE = "TIDELINE_IDLE_S"
LIFETIME_VARIABLE = "TIDELINE_LIFETIME_S"
CONF_VARIABLE = "TIDELINE_SPARK_CONF"

_GRACE_S = 30.0


class LazySpark:
    """A KeptSession that loads Spark when an operation needs it."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._conf = conf
        self._kept: KeptSession | None = None

    def open(self, locations: Iterable[StoreLocation]) -> SparkSession:
        if self._kept is None:
            from tideline.spark.session.kept_session import KeptSession

            _print_progress("starting Spark in this pod")
            memory = {"spark.driver.memory": f"{heap_mib(memory_bytes())}m"}
            self._kept = KeptSession("tideline worker", {**self._conf, **memory})
        return self._kept.open(locations)

    def cancel(self) -> bool:
        """Cancel the operation's work on Spark; False where it has none."""
        return self._kept is not None and self._kept.cancel()

    def reset(self) -> None:
        if self._kept is not None:
            self._kept.reset()

    def has_died(self) -> bool:
        if self._kept is None or self._kept.first is None:
            return False
        from tideline.spark.source_files.landed_rows import is_alive

        return not is_alive(self._kept.first)


def work(environment: Mapping[str, str] = os.environ) -> WorkerEnd:
    """Work until the end. Raises ConfigError naming what is missing in the environment."""
    uid = environment.get(POD_UID_VARIABLE)
    if not uid:
        raise ConfigError(f"a worker needs {POD_UID_VARIABLE} set")
    log = environment.get(TERMINATION_LOG_VARIABLE)
    assignments = PodAssignments(
        ThisPod.of(environment), uid, KubernetesAccount(), Path(log) if log else None
    )
    return work_on(assignments, uid, environment)


def work_on(assignments: Assignments, uid: str, environment: Mapping[str, str]) -> WorkerEnd:
    """Work on what is handed over, until the end; signals are for this worker meanwhile."""
    limits = WorkerLimits(
        _seconds(environment, IDLE_VARIABLE), _seconds(environment, LIFETIME_VARIABLE)
    )
    spark = LazySpark(_spark_conf(environment))
    worker: WarmWorker

    def cancel() -> bool:
        # False interrupts the main thread: while it waits, or works without Spark.
        if worker.is_waiting:
            return False
        return spark.cancel() or worker.executing is None

    def say_last_words() -> None:
        result = worker.stopped("the next operation rolls back what it left")
        if result is not None:
            worker.show(result)

    grace_s = float(environment.get(GRACE_VARIABLE) or _GRACE_S)
    with StopSignal(grace_s, cancel, say_last_words) as stop:
        worker = WarmWorker(
            assignments,
            spark,
            uid,
            limits,
            SystemClock(),
            is_stopping=lambda: stop.is_requested,
            progress=_print_progress,
        )
        _print_progress("waiting for operations")
        end = worker.run()
    _print_progress(f"ending: {end.value}")
    return end


def main() -> int:
    """Exit code 0, so that its Job is complete, but for a signal."""
    mask_standard_error()
    collect_rarely()
    try:
        end = work()
    except ConfigError as error:
        _print_progress(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        end = WorkerEnd.STOPPED
    return EXIT_CODE if end is WorkerEnd.STOPPED else 0


def _seconds(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "")
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{name}: must be a number of seconds", value=text) from error


def _spark_conf(environment: Mapping[str, str]) -> dict[str, str]:
    try:
        content = json.loads(environment.get(CONF_VARIABLE) or "{}")
        return {str(name): str(text) for name, text in content.items()}
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{CONF_VARIABLE}: must be a JSON object of texts") from error


def _print_progress(text: str) -> None:
    end_progress()
    print(f"tideline: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    code = main()
    finish_later()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of a half-dead Spark must not keep the pod alive.
    os._exit(code)
