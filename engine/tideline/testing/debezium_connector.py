"""Debezium's connector for Postgres beside a real broker, for tests.

    python -m tideline.testing.debezium_connector build    fetch it once, into the user's cache

It runs in Connect's worker of one process; its jars come from Maven's repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tideline.spark.session.connectors import MavenArtifact
from tideline.testing.free_port import free_port
from tideline.testing.kafka_broker import VERSION, KafkaBroker, java
from tideline.testing.maven_jars import fetched_jars
from tideline.testing.postgres_server import PostgresDatabase
from tideline.testing.server_process import ServerProcess

DEBEZIUM = "3.6.1.Final"
_ARTIFACTS = (
    MavenArtifact("org.apache.kafka", "connect-runtime", VERSION, without=()),
    MavenArtifact("org.apache.kafka", "connect-json", VERSION, without=()),
    MavenArtifact("io.debezium", "debezium-connector-postgres", DEBEZIUM, without=()),
    MavenArtifact("org.slf4j", "slf4j-simple", "1.7.36", without=()),
)
_END_S = 10.0
_WORKER = """\
bootstrap.servers={brokers}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable={schemas}
value.converter.schemas.enable={schemas}
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=500
listeners=http://127.0.0.1:{port}
plugin.path={folder}/none
"""
_CONNECTOR = """\
name=changes
connector.class=io.debezium.connector.postgresql.PostgresConnector
tasks.max=1
database.hostname=127.0.0.1
database.port={port}
database.user={user}
database.password={password}
database.dbname={database}
topic.prefix={prefix}
plugin.name=pgoutput
slot.name={slot}
publication.name={slot}
publication.autocreate.mode=filtered
table.include.list=public.{table}
"""


def build() -> Path:
    """The folder of its jars, fetched if need be. Raises PeerUnavailableError."""
    return fetched_jars(f"debezium-{DEBEZIUM}", _ARTIFACTS)


class DebeziumConnector:
    """Writes the changes of one table into `topic`, those that are there first."""

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker,
        database: PostgresDatabase,
        table: str,
        *,
        with_schemas: bool = True,
    ) -> None:
        self.topic = f"{database.name}.public.{table}"
        self._folder = folder
        (folder / "none").mkdir(parents=True)
        self._worker = folder / "worker.properties"
        self._worker.write_text(
            _WORKER.format(
                brokers=broker.address,
                schemas=str(with_schemas).lower(),
                folder=folder,
                port=free_port(),
            )
        )
        self._connector = folder / "connector.properties"
        at = urlsplit(database.uri)
        self._connector.write_text(
            _CONNECTOR.format(
                port=at.port,
                user=at.username,
                password=at.password,
                database=database.name,
                prefix=database.name,
                slot=database.slot,
                table=table,
            )
        )
        broker.create_topic(self.topic)
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        self._process = ServerProcess(
            "the connector",
            lambda: [*java(build()), program, str(self._worker), str(self._connector)],
            folder / "connect.log",
            # What it writes is waited for.
            lambda: True,
        )

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.end(_END_S)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tideline.testing.debezium_connector")
    parser.add_argument("what", choices=("build",))
    parser.parse_args()
    build()


if __name__ == "__main__":
    main()
