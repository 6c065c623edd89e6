"""The virtual environments and jars of the peers that interop tests and benches run against.

`python -m tideline.testing.peer_environment [hudi|iceberg ...]` prepares them; it is idempotent and
costs nothing when they are there. None ever enters the product's own environment:

1. for Hudi, a virtual environment with the Spark release its bundle is built for, and hudi-rs;
   for Iceberg, one with the Spark release its runtime is built for, PyIceberg, and DuckDB
   with its extension for Iceberg;
2. the jar of each, through Maven, or through Spark's own resolver on a machine without Maven.

All live in the user's cache folder under names that carry their versions or next to a note of them,
so that a change of version here rebuilds what it concerns.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.spark.session.java_runtime import prepare_java

# Spark 3.5 asks for numpy below 2, and pyarrow from 26 on refuses to start with it.
HUDI_REQUIREMENTS = (
    "pyspark==3.5.8",
    "hudi==0.5.0",
    "pyarrow>=20,<26",
    "pandas>=2.2,<3",
    "numpy>=1.26,<2",
    "setuptools",
)
HUDI_BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0"
HUDI_0_BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12:0.15.0"
"""The last release before 1.0, for the same Spark. Its tables are of version 6."""
DUCKDB = "1.5.5"
"""Each of its extensions is for this one release of it."""
DUCKDB_REQUIREMENTS = (
    f"duckdb=={DUCKDB}",
    f"duckdb-extension-avro=={DUCKDB}",
    f"duckdb-extension-iceberg=={DUCKDB}",
)
ICEBERG_REQUIREMENTS = (
    "pyspark==4.1.4",
    "pyiceberg[pyarrow,sql-sqlite]==0.12.0",
    *DUCKDB_REQUIREMENTS,
    "pandas>=2.2,<3",
    "setuptools",
)
ICEBERG_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
BUILD_TIMEOUT_S = 1800


class PeerUnavailableError(Exception):
    """A peer's environment cannot be built here; the message says which step failed and how."""


@dataclass(frozen=True, slots=True)
class PeerEnvironment:
    """Where a peer's Python interpreter and the jar its Spark needs are, both present."""

    python: Path
    jar: Path

    @staticmethod
    def process_environment(timezone: str = "UTC") -> dict[str, str]:
        """This process's environment variables without those that would lead a peer to our Spark.

        `timezone` is what the peer takes for local time. One JVM that writes tables of several
        zones, as the one that most tests share does, may hang in Hudi's generator of instant times
        anywhere west of Greenwich, so that one's is UTC.

        Java is the one the product would take. Raises ConfigError when there is none.
        """
        variables = dict(os.environ)
        for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
            variables.pop(name, None)
        variables["TZ"] = timezone
        variables["JAVA_HOME"] = str(prepare_java(cache_directory()))
        return variables


def prepare_hudi_peer(bundle: str = HUDI_BUNDLE) -> PeerEnvironment:
    """Build or fetch what is missing for a release of Hudi.

    Raises PeerUnavailableError with the failing step's output.
    """
    directory = cache_directory() / "venvs" / "hudi"
    with only_builder("hudi-peer"):
        python = prepare_virtual_environment(
            directory, HUDI_REQUIREMENTS, imports="hudi, pyarrow.parquet, pyspark"
        )
        return PeerEnvironment(python=python, jar=prepare_jar(bundle, python))


def prepare_iceberg_peer() -> PeerEnvironment:
    """Build or fetch what is missing.

    Raises PeerUnavailableError with the failing step's output.
    """
    directory = cache_directory() / "venvs" / "iceberg"
    with only_builder("iceberg-peer"):
        python = prepare_virtual_environment(
            directory,
            ICEBERG_REQUIREMENTS,
            imports="duckdb_extension_iceberg, pyarrow.parquet, pyiceberg, pyspark",
        )
        return PeerEnvironment(python=python, jar=prepare_jar(ICEBERG_RUNTIME, python))


PREPARATIONS: Mapping[str, Callable[[], PeerEnvironment]] = {
    "hudi": prepare_hudi_peer,
    "iceberg": prepare_iceberg_peer,
}


def run_step(command: Sequence[str], *, environment: dict[str, str] | None = None) -> None:
    """Run a program to its end. Raises PeerUnavailableError with what it said when it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise PeerUnavailableError(f"{' '.join(command[:4])}: {failure}") from failure
    if done.returncode != 0:
        output = (done.stdout + done.stderr)[-2000:]
        raise PeerUnavailableError(
            f"{' '.join(command[:4])} ended with {done.returncode}:\n{output}"
        )


def prepare_virtual_environment(
    directory: Path, requirements: Sequence[str], *, imports: str
) -> Path:
    """An environment with these packages, made or brought up to date; its interpreter. Raises
    PeerUnavailableError."""
    python = directory / "bin" / "python"
    note = directory / "tideline-requirements.json"
    wanted = json.dumps(sorted(requirements))
    if note.exists() and note.read_text() == wanted and python.exists():
        return python
    if not _runs(python):
        shutil.rmtree(directory, ignore_errors=True)
        venv.create(directory, with_pip=True)
    run_step([str(python), "-m", "pip", "install", "--quiet", *requirements])
    run_step([str(python), "-c", f"import {imports}"])
    note.write_text(wanted)
    return python


def _runs(python: Path) -> bool:
    """Whether this interpreter still starts: the one it was made from may be gone."""
    return python.exists() and subprocess.run([str(python), "-c", ""]).returncode == 0


def prepare_jar(coordinate: str, peer_python: Path) -> Path:
    """The jar of these coordinates, fetched where it is missing. Raises PeerUnavailableError."""
    _, artifact, version = coordinate.split(":")
    directory = cache_directory() / "jars"
    jar = directory / f"{artifact}-{version}.jar"
    if jar.exists():
        return jar
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as fetched:
        if shutil.which("mvn"):
            _fetch_with_maven(coordinate, Path(fetched))
        else:
            _fetch_with_spark(coordinate, Path(fetched), peer_python)
        found = sorted(Path(fetched).rglob(f"*{artifact}-{version}.jar"))
        if not found:
            raise PeerUnavailableError(
                f"{coordinate} was fetched without an error but is not there"
            )
        found[0].rename(jar)
    return jar


def _fetch_with_maven(coordinate: str, directory: Path) -> None:
    run_step(
        [
            "mvn",
            "--quiet",
            "--batch-mode",
            "dependency:copy",
            f"-Dartifact={coordinate}",
            f"-DoutputDirectory={directory}",
        ]
    )


def _fetch_with_spark(coordinate: str, directory: Path, peer_python: Path) -> None:
    """Let a throw-away Spark session resolve the coordinate into its Ivy folder."""
    script = (
        "from pyspark.sql import SparkSession\n"
        "session = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')\n"
        f"session = session.config('spark.jars.packages', {coordinate!r})\n"
        f"session.config('spark.jars.ivy', {str(directory)!r}).getOrCreate().stop()\n"
    )
    run_step([str(peer_python), "-c", script], environment=PeerEnvironment.process_environment())


@contextmanager
def only_builder(name: str) -> Iterator[None]:
    """Keep two test sessions from building the same environment at once."""
    with (cache_directory() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Prepare the peers named as arguments, all when there are none, and print where they are."""
    for name in sys.argv[1:] or PREPARATIONS:
        try:
            environment = PREPARATIONS[name]()
        except PeerUnavailableError as failure:
            print(failure, file=sys.stderr)
            return 4
        print(f"{name} python  {environment.python}\n{name} jar  {environment.jar}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
