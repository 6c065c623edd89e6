"""A real Hive metastore on the loopback interface, for tests: Hive's own, out of Spark's jars.

    python -m tideline.testing.hive_metastore_server    run one until interrupted, print its address

It keeps its tables in Derby, in a folder. The tables of locks, which Hive's schema tool makes
elsewhere, are made before it starts.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import pause
from xml.sax.saxutils import escape

import pytest

from tideline.cache_directory import cache_directory
from tideline.spark.session.java_runtime import prepare_java
from tideline.testing.free_port import free_port
from tideline.testing.server_process import ServerProcess

_OPENED = ("java.lang", "java.net", "java.nio", "java.util")
_MAIN_CLASS = "org.apache.hadoop.hive.metastore.HiveMetaStore"


@dataclass(frozen=True, slots=True)
class HiveMetastoreServer:
    """A running metastore, which makes folders of tables without a location in `warehouse`."""

    port: int
    warehouse: Path
    process: ServerProcess

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"


@contextmanager
def serve_metastore(folder: Path) -> Iterator[HiveMetastoreServer]:
    """A metastore for the length of a `with` block, with all its files in an existing folder."""
    import pyspark

    port, warehouse = free_port(), folder / "warehouse"
    warehouse.mkdir()
    (folder / "hive-site.xml").write_text(_configuration(folder, warehouse))
    java = prepare_java(cache_directory()) / "bin" / "java"
    jars = Path(pyspark.__path__[0]) / "jars"
    options = [
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        *("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dderby.system.home={folder}",
    ]
    class_path = os.pathsep.join((str(folder), f"{jars}/*"))
    _make_tables_of_locks(java, options, class_path)
    command = [str(java), *options, "-cp", class_path, _MAIN_CLASS, "-p", str(port)]

    def answers() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    process = ServerProcess("the metastore", lambda: command, folder / "log", answers)
    process.start()
    try:
        yield HiveMetastoreServer(port, warehouse, process)
    finally:
        process.kill()


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastoreServer]:
    """One metastore for the whole test session; tests have databases of their own."""
    with serve_metastore(tmp_path_factory.mktemp("hive-metastore")) as server:
        yield server


def _make_tables_of_locks(java: Path, options: list[str], class_path: str) -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    port, process = launch_gateway(
        classpath=class_path,
        javaopts=options,
        java_path=str(java),
        die_on_exit=True,
        return_proc=True,
    )
    try:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        hive = gateway.jvm.org.apache.hadoop.hive
        hive.metastore.txn.TxnDbUtil.prepDb(hive.conf.HiveConf())
    finally:
        process.kill()
        process.wait()


def _configuration(folder: Path, warehouse: Path) -> str:
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/tables;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": warehouse.as_uri(),
        "hive.async.log.enabled": "false",
    }
    properties = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{''.join(properties)}</configuration>"


def main() -> int:
    """Run one until interrupted."""
    with tempfile.TemporaryDirectory() as folder, serve_metastore(Path(folder)) as server:
        print(server.uri, flush=True)
        try:
            pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
