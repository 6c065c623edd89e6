"""Iceberg's own REST catalog, as a server of its own for tests.

    python -m tideline.testing.iceberg_rest_server    fetch its jars into the user's cache

The server is the one that Iceberg's project tests its clients with; it is published as jars alone.
It keeps its tables in a SQLite database in memory and their files in a folder. Fetching needs
Maven: Spark's resolver does not know artifacts with a classifier.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.spark.session.connectors import MavenArtifact
from tideline.storage.named_places import SETTING
from tideline.testing.free_port import free_port
from tideline.testing.maven_jars import fetched_jars, require_jars
from tideline.testing.peer_environment import (
    PeerEnvironment,
    PeerUnavailableError,
    prepare_iceberg_peer,
)

VERSION = "1.10.1"
"""The newest whose server is published."""

_ICEBERG = "org.apache.iceberg"
_ARTIFACTS = (
    MavenArtifact(_ICEBERG, "iceberg-open-api", VERSION, without=(), classifier="test-fixtures"),
    MavenArtifact(_ICEBERG, "iceberg-core", VERSION, without=()),
    MavenArtifact(_ICEBERG, "iceberg-core", VERSION, without=(), classifier="tests"),
    MavenArtifact("org.eclipse.jetty", "jetty-servlet", "11.0.26", without=()),
    MavenArtifact("org.slf4j", "slf4j-simple", "2.0.17", without=()),
    MavenArtifact("org.xerial", "sqlite-jdbc", "3.50.3.0", without=()),
)
# Hadoop's file system, which Spark carries along.
_SPARK_JARS = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "commons-logging-*.jar")
_MAIN_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
_START_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class IcebergRestServer:
    """A running server."""

    uri: str
    warehouse: Path


def prepare_rest_server() -> Path:
    """The folder of its jars, fetched if need be. Raises PeerUnavailableError."""
    return fetched_jars(f"iceberg-rest-{VERSION}", _ARTIFACTS)


@contextmanager
def serve_rest_catalog(folder: Path) -> Iterator[IcebergRestServer]:
    """A server for the length of a `with` block, tables and log in an existing folder."""
    port = free_port()
    server = IcebergRestServer(f"http://127.0.0.1:{port}", folder / "warehouse")
    server.warehouse.mkdir()
    variables = {
        **PeerEnvironment.process_environment(),
        "CATALOG_WAREHOUSE": str(server.warehouse),
        "CATALOG_IO__IMPL": "org.apache.iceberg.hadoop.HadoopFileIO",
        "CATALOG_REST_PORT": str(port),
        # The first version of its database has no views.
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
    }
    java = Path(variables["JAVA_HOME"]) / "bin" / "java"
    command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", "-cp", _class_path(), _MAIN_CLASS]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT)
    try:
        if not _answers(server, process):
            raise PeerUnavailableError(f"The REST catalog: {(folder / 'log').read_text()[-2000:]}")
        yield server
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def iceberg_rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestServer]:
    """One REST catalog for the whole test session."""
    require_jars(prepare_rest_server)
    with serve_rest_catalog(tmp_path_factory.mktemp("iceberg-rest")) as server:
        yield server


@pytest.fixture
def catalogs_name_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Configuration lets catalogs name folders of this test run, as their server keeps them."""
    monkeypatch.setenv(SETTING, str(tmp_path_factory.getbasetemp()))


def _class_path() -> str:
    environment = prepare_iceberg_peer()
    (spark,) = environment.python.parents[1].glob("lib/python3*/site-packages/pyspark/jars")
    hadoop = [str(jar) for pattern in _SPARK_JARS for jar in spark.glob(pattern)]
    return os.pathsep.join([f"{prepare_rest_server()}/*", *hadoop])


def _answers(server: IcebergRestServer, process: subprocess.Popen[bytes]) -> bool:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.uri}/v1/config", timeout=5):
                return True
        except OSError:
            time.sleep(0.1)
    return False


def main() -> int:
    """Fetch the jars and print where they are; without Maven, say so."""
    try:
        print(prepare_rest_server())
    except PeerUnavailableError as failure:
        print(failure, file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
