"""Builds what tests compare with and connect to: `python -m tideline.testing.peers`.

What is there already takes no time and no line. The rest is built in parallel, once per machine;
every step has a line when it is done, and what still runs is named meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

_QUIET_S = 3.0
_BETWEEN_LINES_S = 20.0


@dataclass(frozen=True, slots=True)
class Step:
    """One module that is run. Without what is not `required` some tests are skipped."""

    what: str
    command: tuple[str, ...]
    required: bool = True


FIRST = (
    (Step("MinIO", ("tideline.testing.minio_server", "build")),),
    (Step("the engines of Hudi and Iceberg", ("tideline.testing.peer_environment",)),),
    (Step("the jars for S3", ("tideline.spark.session.connector_jars",)),),
    (Step("the library of Lance", ("tideline.testing.lance_library",)),),
    (
        Step("a REST catalog", ("tideline.testing.iceberg_rest_server",), required=False),
        Step(
            "an emulator of Azure's storage",
            ("tideline.testing.azurite_server", "build"),
            required=False,
        ),
        Step("a broker of Kafka", ("tideline.testing.kafka_broker", "build"), required=False),
        Step(
            "the connector of Debezium",
            ("tideline.testing.debezium_connector", "build"),
            required=False,
        ),
        Step(
            "an archive of Spark's classes",
            ("tideline.spark.session.make_class_archive",),
            required=False,
        ),
    ),
)
"""Side by side; the steps of one group one after another."""
THEN = ((Step("tables that Hudi wrote", ("tideline.testing.stand_in_tables",)),),)


def main() -> int:
    """Run all; the exit code of the first required step that failed, else 0."""
    return prepare(FIRST) or prepare(THEN)


def prepare(groups: Sequence[Sequence[Step]]) -> int:
    """Run groups of steps side by side; the exit code."""
    started_s = time.monotonic()
    running: dict[str, float] = {}
    with ThreadPoolExecutor(len(groups)) as pool:
        left: Collection[Future[int]] = [pool.submit(_run, group, running) for group in groups]
        done: list[int] = []
        patience_s = _QUIET_S
        while left:
            finished, left = wait(left, timeout=patience_s)
            done += [future.result() for future in finished]
            if left and time.monotonic() - started_s >= _QUIET_S:
                names = ", ".join(running)
                _say(f"once for this machine: {names} ({time.monotonic() - started_s:.0f} s)")
            patience_s = _BETWEEN_LINES_S
    return next((code for code in done if code), 0)


def _run(steps: Sequence[Step], running: dict[str, float]) -> int:
    for step in steps:
        running[step.what] = time.monotonic()
        command = [sys.executable, "-m", *step.command]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        taken_s = time.monotonic() - running.pop(step.what)
        if done.returncode:
            _say(f"{step.what}: failed\n{done.stderr.rstrip()}")
            if step.required:
                return done.returncode
        elif taken_s > 2 * _QUIET_S:
            _say(f"{step.what}: {taken_s:.0f} s")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
