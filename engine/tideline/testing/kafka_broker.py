"""A real broker of Kafka on the loopback interface, for tests.

    python -m tideline.testing.kafka_broker build    fetch it once, into the user's cache
    python -m tideline.testing.kafka_broker start    run one until interrupted, print its address

Its jars come from Maven's repository. It is one node that is broker and controller; retention and
compaction act within seconds.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tideline.spark.session.connectors import MavenArtifact
from tideline.testing.free_port import free_port
from tideline.testing.kafka_topics import KafkaTopics
from tideline.testing.maven_jars import fetched_jars, require_jars
from tideline.testing.peer_environment import PeerEnvironment
from tideline.testing.server_process import ServerProcess

VERSION = "4.3.1"
_ARTIFACTS = (
    MavenArtifact("org.apache.kafka", "kafka_2.13", VERSION, without=()),
    MavenArtifact("org.slf4j", "slf4j-simple", "1.7.36", without=()),
)
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
PLAIN_USER, PLAIN_PASSWORD = "plain", "only=for,tests"
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAIN://127.0.0.1:{port},CONTROL://127.0.0.1:{controller},\
SCRAM://127.0.0.1:{scram},TLS://127.0.0.1:{tls},TOKEN://127.0.0.1:{token},\
MUTUAL://127.0.0.1:{mutual},PASSWORD://127.0.0.1:{password}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROL:PLAINTEXT,SCRAM:SASL_PLAINTEXT,\
TLS:SASL_SSL,TOKEN:SASL_PLAINTEXT,MUTUAL:SSL,PASSWORD:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.scram.scram-sha-512.sasl.jaas.config={module} required;
listener.name.tls.scram-sha-512.sasl.jaas.config={module} required;
listener.name.tls.ssl.keystore.type=PEM
listener.name.tls.ssl.keystore.location={folder}/server.pem
listener.name.token.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.token.oauthbearer.sasl.jaas.config={token_module} required \
unsecuredLoginStringClaim_sub="broker";
listener.name.mutual.ssl.keystore.type=PEM
listener.name.mutual.ssl.keystore.location={folder}/server.pem
listener.name.mutual.ssl.truststore.type=PEM
listener.name.mutual.ssl.truststore.location={folder}/client-ca.pem
listener.name.mutual.ssl.client.auth=required
listener.name.password.ssl.keystore.type=PEM
listener.name.password.ssl.keystore.location={folder}/server.pem
listener.name.password.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.password.scram-sha-256.sasl.jaas.config={module} required;
listener.name.password.plain.sasl.jaas.config={plain_module} required user_{user}="{secret}";
controller.listener.names=CONTROL
inter.broker.listener.name=PLAIN
log.dirs={folder}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.cleaner.backoff.ms=500
"""


def build() -> Path:
    """The folder of its jars, fetched if need be. Raises PeerUnavailableError."""
    return fetched_jars(f"kafka-{VERSION}", _ARTIFACTS)


class KafkaBroker(KafkaTopics):
    """One broker, and what tests do to it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        listeners = port, scram, tls, token, mutual, password = [free_port() for _ in range(6)]
        super().__init__(f"127.0.0.1:{port}")
        self.scram_address = f"127.0.0.1:{scram}"
        self.tls_address = f"127.0.0.1:{tls}"
        """Both need a user; this one is behind TLS, by the authority in `ca_file`."""
        self.ca_file = folder / "ca.pem"
        self.token_address = f"127.0.0.1:{token}"
        """Takes tokens that nobody has signed."""
        self.mutual_address = f"127.0.0.1:{mutual}"
        """Behind TLS, for clients that have the certificate in `client_file` and its key."""
        self.client_file, self.client_key_file = folder / "client-ca.pem", folder / "client-key.pem"
        self.password_address = f"127.0.0.1:{password}"
        """Behind TLS, for PLAIN with PLAIN_USER and PLAIN_PASSWORD, or SCRAM-SHA-256."""
        self._settings = folder / "server.properties"
        folder.mkdir(parents=True, exist_ok=True)
        settings = _SETTINGS.format(
            port=port,
            controller=free_port(),
            scram=scram,
            tls=tls,
            token=token,
            mutual=mutual,
            password=password,
            plain_module="org.apache.kafka.common.security.plain.PlainLoginModule",
            user=PLAIN_USER,
            secret=PLAIN_PASSWORD,
            token_module="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            folder=folder,
            module="org.apache.kafka.common.security.scram.ScramLoginModule",
        )
        self._settings.write_text(settings)
        self._process = ServerProcess(
            "the broker",
            lambda: [*java(build()), "kafka.Kafka", str(self._settings)],
            folder / "broker.log",
            lambda: all(map(is_open, listeners)),
        )

    def __enter__(self) -> Self:
        key = self._folder / "key.pem"
        make_certificate("broker", self.ca_file, key)
        (self._folder / "server.pem").write_text(key.read_text() + self.ca_file.read_text())
        make_certificate("client", self.client_file, self.client_key_file)
        format_storage = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID)
        subprocess.run(
            [*java(build()), *format_storage, "-c", str(self._settings)],
            check=True,
            capture_output=True,
        )
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it; what it has stored stays from one start to the next."""
        self._process.start()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def damage(self, topic: str, before: bytes, after: bytes) -> None:
        """Other bytes where it has stored these, as a failing disk has, while it runs."""
        assert len(before) == len(after)
        (segment,) = (self._folder / "logs" / f"{topic}-0").glob("*.log")
        place = segment.read_bytes().index(before)
        with segment.open("r+b") as stored:
            stored.seek(place)
            stored.write(after)

    def copy_disk(self) -> Path:
        """A copy of all that it has stored, while it runs."""
        copy = Path(tempfile.mkdtemp(dir=self._folder, prefix="copy-")) / "logs"
        shutil.copytree(self._folder / "logs", copy)
        return copy

    def restore_disk(self, copy: Path) -> None:
        """Start it with what it had stored when the copy was made."""
        self.kill()
        shutil.rmtree(self._folder / "logs")
        copy.rename(self._folder / "logs")
        self.start()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """One broker for the whole test session."""
    require_jars(build)
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def make_certificate(
    name: str, certificate: Path, key: Path, *, server: str = "IP:127.0.0.1"
) -> None:
    """One that signs itself, by openssl; `server` is whose it is, as its subjectAltName says."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName={server}"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )


def java(jars: Path) -> list[str]:
    """A small Java virtual machine with these jars."""
    options = ("-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    # The pattern is Java's, not a shell's.
    program = Path(PeerEnvironment.process_environment()["JAVA_HOME"]) / "bin" / "java"
    return [str(program), *options, quiet, "-cp", f"{jars}/*"]


def is_open(port: int) -> bool:
    with socket.socket() as found:
        found.settimeout(1)
        return found.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tideline.testing.kafka_broker")
    parser.add_argument("what", choices=("build", "start"))
    build()
    if parser.parse_args().what == "start":
        with tempfile.TemporaryDirectory() as folder, KafkaBroker(Path(folder)) as broker:
            print(broker.address, flush=True)
            try:
                signal.pause()
            except KeyboardInterrupt:
                sys.exit(0)


if __name__ == "__main__":
    main()
