"""Another implementation on a Spark of its own: one long-lived JVM in a peer's environment.

The server, a script of that environment, is spoken to line by line. It gets the path of the peer's
jar and the Spark settings as arguments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tideline.testing.json_line_process import JsonLineProcess
from tideline.testing.peer_environment import PeerEnvironment

SMALL_DATA_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    # On small data the optimising compiler costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


class SparkPeer:
    """A running peer. Raises PeerFailure with Java's own account when a request fails there."""

    def __init__(
        self,
        server: str,
        environment: PeerEnvironment,
        scratch: Path,
        spark_settings: Mapping[str, str],
    ) -> None:
        """Start the JVM. `scratch` is an existing folder for rows on their way and for the log."""
        self._scratch = scratch
        settings = {**spark_settings, "spark.local.dir": str(scratch)}
        script = Path(__file__).with_name(f"{server}.py")
        self._process = JsonLineProcess(
            [str(environment.python), str(script), str(environment.jar), json.dumps(settings)],
            log_path=scratch / f"{server}.log",
            working_directory=scratch,
            environment=environment.process_environment(),
        )

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
        """End the JVM."""
        self._process.close()
