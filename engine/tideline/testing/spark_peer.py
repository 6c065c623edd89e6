"""Another implementation on a Spark of its own: one long-lived JVM in a peer's environment.

The server, a script of that environment, is spoken to line by line. It gets the path of the peer's
jar and the Spark settings as arguments, and of a socket when several processes share it: each then
has a Spark session of its own in the one JVM.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tideline.testing.json_line_process import (
    JsonLineChannel,
    JsonLineProcess,
    connect_shared,
)
from tideline.testing.peer_environment import PeerEnvironment

SMALL_DATA_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    # On small data the optimising compiler costs more than it saves. Hudi's bloom index sends a
    # view of files to tasks, with its locks, which Java 17 keeps closed.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


class SparkPeer:
    """A running peer.

    Raises PeerFailureError with Java's own message when a request fails there.
    """

    def __init__(
        self,
        server: str,
        environment: PeerEnvironment,
        scratch: Path,
        spark_settings: Mapping[str, str],
        shared_in: Path | None,
        timezone: str = "UTC",
    ) -> None:
        """Start the JVM, or use the one of all who name the folder `shared_in`.

        `scratch` is an existing folder for rows on their way, and for the log of a JVM not shared.
        `timezone` is its local time, by the name that TZ takes.
        """
        self._scratch = scratch
        settings = {**spark_settings, "spark.local.dir": str(shared_in or scratch)}
        script = Path(__file__).with_name(f"{server}.py")
        command = [str(environment.python), str(script), str(environment.jar), json.dumps(settings)]
        variables = environment.process_environment(timezone)
        self._process: JsonLineChannel
        if shared_in is None:
            self._process = JsonLineProcess(
                command,
                log_path=scratch / f"{server}.log",
                working_directory=scratch,
                environment=variables,
            )
        else:
            self._process = connect_shared(command, folder=shared_in, environment=variables)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the peer's Python process; the JVM is its child."""
        return self._process.pid

    def close(self) -> None:
        """End the JVM; one that is shared ends with its last user."""
        self._process.close()


def folder_of_the_run(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that all workers of a parallel test run have in common."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
