"""Programs of Hudi that are in none of its bundles for Spark: its validator, its streamer.

Maven Central has those of release 0.14.0 alone, outside of a bundle; they need a Spark of their
own, and know tables up to version 6.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.testing.peer_environment import (
    PeerEnvironment,
    only_builder,
    prepare_jar,
    prepare_virtual_environment,
)

HUDI_UTILITIES = "org.apache.hudi:hudi-utilities_2.12:0.14.0"
_REQUIREMENTS = ("pyspark==3.4.4", "setuptools")
_JARS = (
    HUDI_UTILITIES,
    "org.apache.hudi:hudi-spark3.4-bundle_2.12:0.14.0",
    "com.beust:jcommander:1.72",
)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.driver.host": "127.0.0.1",
}


@dataclass(frozen=True, slots=True)
class HudiUtilities:
    """The interpreter that has their Spark, and their jars; that of the programs comes first."""

    python: Path
    jars: tuple[Path, ...]

    def submit(
        self, name: str, arguments: Sequence[str], *, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run the program that is the class `name` to its end; all it prints is its `stdout`."""
        path = ":".join(map(str, self.jars))
        settings = {**SETTINGS, "spark.driver.extraClassPath": path}
        command = [str(self._spark / "bin/spark-submit"), "--master", "local[1]"]
        command += [word for item in settings.items() for word in ("--conf", "=".join(item))]
        return self.run([*command, "--class", name, str(self.jars[0]), *arguments], timeout_s)

    def run(self, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a command with their Spark; all it prints is its `stdout`."""
        return subprocess.run(
            command,
            env={**PeerEnvironment.process_environment(), "SPARK_HOME": str(self._spark)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
        )

    @property
    def _spark(self) -> Path:
        (spark,) = self.python.parent.parent.glob("lib/python*/site-packages/pyspark")
        return spark


def prepared_utilities() -> HudiUtilities:
    """Raises PeerUnavailableError where they cannot be had."""
    with only_builder("hudi-validator"):
        directory = cache_directory() / "venvs" / "hudi-validator"
        python = prepare_virtual_environment(directory, _REQUIREMENTS, imports="pyspark")
        jars = tuple(prepare_jar(coordinate, python) for coordinate in _JARS)
        return HudiUtilities(python, jars)
