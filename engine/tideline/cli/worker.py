"""The worker of `tideline run`: one process that runs operations, and keeps the Spark session that
one of them needed.

JSON lines. In: `{"locations": [...]}` once, then `{"operation": {...}}`, one at a time. Out:
`{"ready": true}`, `{"progress": text, "id": id}`, `{"result": {...}}`. Only the protocol goes to
the original standard output; anything else that prints there goes to standard error.

It ends when its input ends. Should that happen in the middle of an operation, the process that
asked for it is gone: the work is abandoned at once, and the pending instant is rolled back by the
next writer once its heartbeat is dead. On SIGTERM the write under way is undone first: its work on
Spark is cancelled, see `stop_signal`, and the main thread is left to its talk with Java.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from tideline.cli.stop_signal import StopSignal
from tideline.ingest.execute.execute_operation import execute_operation, failed_result
from tideline.ingest.locate import locate
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.masked_stream import mask_standard_error
from tideline.own_process import collect_rarely
from tideline.secret_values import masked
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_DIED = 70
"""Exit code when Spark does not answer any more: only a new process has a new Java."""
STOPPED = 130
_GRACE_S = 20.0


class Worker:
    """Reads commands, carries them out one by one, answers."""

    def __init__(self, commands: TextIO, answers: TextIO) -> None:
        self._commands = commands
        self._answers = answers
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._busy = threading.Event()
        self._locations: tuple[StoreLocation, ...] = ()
        self._session: SparkSession | None = None

    def run(self, stop: StopSignal) -> int:
        """Serve until the input ends, or until asked to stop; returns the exit code."""
        threading.Thread(target=self._listen, name="commands", daemon=True).start()
        self._answer({"ready": True})
        while (command := self._queue.get()) is not None:
            if "locations" in command:
                self._locations = tuple(
                    locate(Location(item["uri"], tuple(sorted(item["options"].items()))))
                    for item in command["locations"]
                )
                continue
            self._busy.set()
            result = self._execute(command["operation"])
            self._answer({"result": result.to_json_object()})
            self._busy.clear()
            if stop.is_requested:
                return STOPPED
            if result.outcome is Outcome.FAILED and self._is_spark_dead():
                return SPARK_DIED
        return 0

    def cancel_spark(self) -> bool:
        """Cancel the operation's work on Spark; False where there is none to cancel."""
        if self._session is None or not self._busy.is_set():
            return False
        with contextlib.suppress(Exception):
            self._session.sparkContext.cancelAllJobs()
        return True

    def _listen(self) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in self._commands:
                self._queue.put(json.loads(line))
        if self._busy.is_set():
            # No process waits for the answer, and another may soon do the same work.
            os._exit(1)
        self._queue.put(None)

    def _execute(self, content: Any) -> OperationResult:
        operation = Operation.from_json_object(content)
        try:
            return execute_operation(
                operation,
                session_factory=self._open_session,
                progress=lambda text: self._answer({"progress": masked(text), "id": operation.id}),
            )
        except Exception as error:
            traceback.print_exc()
            return failed_result(operation.id, error)

    def _open_session(self, locations: Iterable[StoreLocation]) -> SparkSession:
        # Operations that need no Spark do not load it.
        from tideline.spark.session.spark_session import spark_session

        wanted = tuple(dict.fromkeys((*self._locations, *locations)))
        session = spark_session("tideline run", locations=wanted)
        # A cancelled task ends at once, and does not continue writing its file.
        session.sparkContext.setLocalProperty("spark.job.interruptOnCancel", "true")
        self._session = session
        return session

    def _is_spark_dead(self) -> bool:
        if self._session is None:
            return False
        from tideline.spark.source_files.landed_rows import is_alive

        return not is_alive(self._session)

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            self._answers.write(json.dumps(message, ensure_ascii=False) + "\n")
            self._answers.flush()
        except OSError:
            os._exit(1)


def main() -> int:
    """Serve standard input and output."""
    mask_standard_error()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = Worker(sys.stdin, answers)
    collect_rarely()
    try:
        with StopSignal(_GRACE_S, worker.cancel_spark, lambda: None) as stop:
            return worker.run(stop)
    except KeyboardInterrupt:
        return STOPPED


if __name__ == "__main__":
    sys.exit(main())
