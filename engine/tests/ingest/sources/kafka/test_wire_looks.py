"""A look over connections that are given finds what the client of Kafka finds, at a real broker;
and a server that lies costs a bounded time and a bounded memory."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Isolation, Mechanism, Protocol
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.wire import look
from tideline.ingest.sources.kafka.wire.look import look_by

pytest.importorskip("confluent_kafka")

from tideline.ingest.sources.kafka.broker import look_at
from tideline.testing.kafka_broker import KafkaBroker

USER, PASSWORD = "reader,=", "spring=tide,2026"
NOBODY = Credentials()


def directly(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), 3.0)
    except OSError as error:
        raise StorageUnavailableError(f"cannot connect: {error.strerror}") from error


def of(brokers: str, *topics: str) -> DeclaredKafka:
    return DeclaredKafka(brokers=brokers, topics=topics, schema=())


def by_client(source: DeclaredKafka, after: KafkaPosition | None = None) -> KafkaOffsets:
    return replace(look_at(source, NOBODY, after, asks_age=True), looked_ms=0)


def looked(
    source: DeclaredKafka, credentials: Credentials = NOBODY, after: KafkaPosition | None = None
) -> KafkaOffsets:
    found = look_by(source, credentials, directly, after, asks_age=True)
    return replace(found, looked_ms=0)


def signing(broker: KafkaBroker, *, encrypted: bool, topic: str) -> DeclaredKafka:
    kind = Protocol.SASL_SSL if encrypted else Protocol.SASL_PLAINTEXT
    address = broker.tls_address if encrypted else broker.scram_address
    return replace(of(address, topic), protocol=kind, mechanism=Mechanism.SCRAM_SHA_512)


@pytest.fixture
def topic() -> str:
    return f"wire-{secrets.token_hex(4)}"


@pytest.mark.kafka
def test_it_finds_what_the_client_finds(kafka_broker: KafkaBroker, topic: str) -> None:
    """Ids of topics with every letter that they may have, retention, times, partitions."""
    kafka_broker.create_topic(topic, 3)
    others = [f"{topic}-{number}" for number in range(20)]
    for other in others:
        kafka_broker.create_topic(other)
    kafka_broker.produce(topic, [(b"k", b"v")] * 50, timestamp_ms=1_000)
    kafka_broker.produce(topic, [(b"k", b"v")] * 50, timestamp_ms=9_000)
    kafka_broker.produce(topic, [(b"k", b"v")] * 5, partition=2, timestamp_ms=1_000)
    kafka_broker.delete_records(topic, 10)
    after = KafkaPosition({topic: "id"}, {})
    for start in ("earliest", "latest", "5000", "99999"):
        source = replace(of(kafka_broker.address, topic, "none", *others), start=start)
        found = looked(source)
        assert found == by_client(source)
        assert found.missing == ("none",)
        assert sum(part.end - part.first for part in found.partitions.values()) == 95
        assert looked(source, after=after) == by_client(source, after)
    assert looked(of(kafka_broker.address, topic)).oldest_ms == 1_000
    wanted = replace(of(kafka_broker.address), pattern=f"{topic}-1.*")
    assert looked(wanted) == by_client(wanted)
    assert len(looked(wanted).topic_ids) == 11


@pytest.mark.kafka
def test_an_open_transaction_is_the_end_for_read_committed(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, [(b"k", b"v")] * 7)
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    ends = []
    for isolation in Isolation:
        source = replace(of(kafka_broker.address, topic), isolation=isolation)
        assert looked(source) == by_client(source)
        ends += [part.end for part in looked(source).partitions.values()]
    producer.abort_transaction(30)
    assert ends == [7, 8]


@pytest.mark.kafka
@pytest.mark.parametrize("encrypted", [False, True])
def test_it_signs_in(kafka_broker: KafkaBroker, topic: str, encrypted: bool) -> None:
    kafka_broker.create_topic(topic)
    kafka_broker.add_user(USER, PASSWORD)
    source = signing(kafka_broker, encrypted=encrypted, topic=topic)
    known = Credentials(USER, PASSWORD, authorities=kafka_broker.ca_file.read_text())
    assert looked(source, known).partitions
    with pytest.raises(ConfigError, match="refuse this client: SASL_AUTHENTICATION_FAILED"):
        looked(source, replace(known, password="another"))
    with pytest.raises(ConfigError, match="KAFKA_PASSWORD is not set"):
        looked(source, replace(known, password=""))
    with pytest.raises(ConfigError, match="UNSUPPORTED_SASL_MECHANISM: mechanism PLAIN"):
        looked(replace(source, mechanism=Mechanism.PLAIN), known)


@pytest.mark.kafka
def test_a_certificate_of_nobody_known_is_refused(kafka_broker: KafkaBroker, topic: str) -> None:
    source = signing(kafka_broker, encrypted=True, topic=topic)
    with pytest.raises(ConfigError, match="certificate verify failed: self-signed certificate"):
        looked(source, Credentials(USER, PASSWORD))
    host = replace(source, brokers=source.brokers.replace("127.0.0.1", "localhost"))
    known = Credentials(USER, PASSWORD, authorities=kafka_broker.ca_file.read_text())
    with pytest.raises(ConfigError, match="certificate verify failed"):
        looked(host, known)


@pytest.mark.kafka
def test_a_clients_certificate_is_read_from_memory(kafka_broker: KafkaBroker, topic: str) -> None:
    kafka_broker.create_topic(topic)
    source = replace(of(kafka_broker.mutual_address, topic), protocol=Protocol.SSL)
    known = Credentials(
        authorities=kafka_broker.ca_file.read_text(),
        certificate=kafka_broker.client_file.read_text(),
        key=kafka_broker.client_key_file.read_text(),
    )
    assert looked(source, known).partitions
    with pytest.raises(ConfigError, match="certificates or keys cannot be read"):
        looked(source, replace(known, key="none"))
    with pytest.raises(ConfigError, match="refuse this client"):
        looked(source, replace(known, key="", certificate=""))


@contextmanager
def lying(answer: Callable[[socket.socket], None]) -> Iterator[DeclaredKafka]:
    """A server on loopback that does this to each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    made, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answering, args=(made,), daemon=True).start()

        def answering(made: socket.socket) -> None:
            with made:
                try:
                    answer(made)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield of(f"127.0.0.1:{server.getsockname()[1]}", "orders")
        server.shutdown(socket.SHUT_RDWR)


def drip(made: socket.socket) -> None:
    made.sendall((1000).to_bytes(4))
    while True:
        made.sendall(b"\0")
        time.sleep(0.05)


LIES: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "silence": (lambda _: time.sleep(5), "timed out"),
    "drip": (drip, "timed out"),
    "closes": (lambda _: None, r"closed the connection|reset by peer"),
    "http": (
        lambda made: made.sendall(b"HTTP/1.1 400 no\r\n\r\n"),
        "no broker of Kafka: an answer of",
    ),
    "huge": (lambda made: made.sendall((2**31 - 1).to_bytes(4)), "an answer of 2,147,483,647"),
    "negative": (lambda made: made.sendall(b"\xff" * 8), "an answer of -1 bytes"),
    "another": (lambda made: made.sendall((8).to_bytes(4) + bytes(8)), "to another request"),
    "many": (
        lambda made: made.sendall(
            (10).to_bytes(4) + (1).to_bytes(4) + bytes(2) + (2**31 - 1).to_bytes(4)
        ),
        "a message is cut off",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies_costs_a_bounded_time(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "LOOK_S", 0.5)
    answer, words = LIES[lie]
    with lying(answer) as source:
        began_s = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=words):
            looked(source)
        assert time.monotonic() - began_s < 4


def test_brokers_that_are_away_are_named() -> None:
    source = of("127.0.0.1:1,127.0.0.1:2", "orders")
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:2: cannot connect"):
        looked(source)
