"""Signing in to a real broker with a token of a server, and with a certificate."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin._scram import ScramMechanism

from tideline.errors import ConfigError
from tideline.ingest.sources.kafka import broker as broker_module
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import Mechanism, Protocol
from tideline.ingest.sources.kafka.wire.look import look_by
from tideline.testing.kafka_broker import (
    PLAIN_PASSWORD,
    PLAIN_USER,
    KafkaBroker,
    make_certificate,
)
from tideline.testing.token_server import CLIENT, SECRET, TokenServer, token_server
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with token_server() as found:
        yield found


@pytest.fixture
def feed(kafka_broker: KafkaBroker, tmp_path: Path) -> TopicFeed:
    topic = f"signed-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, values([(1, 1, "a")]))
    return TopicFeed.of(tmp_path, kafka_broker.address, topic)


def test_a_client_signs_in_with_a_token_and_another_secret_is_refused(
    kafka_broker: KafkaBroker,
    feed: TopicFeed,
    tokens: TokenServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed.source = replace(
        feed.source,
        brokers=kafka_broker.token_address,
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
    )
    for name in ("KAFKA_CLIENT_ID", "KAFKA_CLIENT_SECRET", "KAFKA_TOKEN_URL"):
        with pytest.raises(ConfigError, match=f"{name} is not set: the mechanism is OAUTHBEARER"):
            feed.plan()
        given = {"KAFKA_CLIENT_ID": CLIENT, "KAFKA_CLIENT_SECRET": SECRET}
        monkeypatch.setenv(name, given.get(name, tokens.url))
    monkeypatch.setenv("KAFKA_TOKEN_SCOPE", "read")
    assert feed.drain() is None
    assert feed.rows() == [(1, "a")]
    assert tokens.asked[0] == {"grant_type": ["client_credentials"], "scope": ["read"]}

    monkeypatch.setattr(broker_module, "_ANSWER_S", 3.0)
    monkeypatch.setenv("KAFKA_CLIENT_SECRET", "another-secret-2026")
    with pytest.raises(ConfigError, match="the brokers refuse this client") as refused:
        feed.plan()
    assert "another-secret-2026" not in str(refused.value)


def test_a_client_signs_in_with_a_certificate_and_none_without(
    kafka_broker: KafkaBroker, feed: TopicFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.source = replace(feed.source, brokers=kafka_broker.mutual_address, protocol=Protocol.SSL)
    monkeypatch.setenv("KAFKA_CA", kafka_broker.ca_file.read_text())
    monkeypatch.setenv("KAFKA_CLIENT_CERTIFICATE", kafka_broker.client_file.read_text())
    monkeypatch.setenv("KAFKA_CLIENT_KEY", kafka_broker.client_key_file.read_text())
    assert feed.drain() is None
    assert feed.rows() == [(1, "a")]

    monkeypatch.setattr(broker_module, "_ANSWER_S", 3.0)
    monkeypatch.delenv("KAFKA_CLIENT_CERTIFICATE")
    monkeypatch.delenv("KAFKA_CLIENT_KEY")
    with pytest.raises(ConfigError, match="the brokers refuse this client"):
        feed.plan()


@pytest.mark.parametrize("mechanism", [Mechanism.PLAIN, Mechanism.SCRAM_SHA_256])
def test_a_client_and_a_look_sign_in_with_a_password_behind_tls(
    mechanism: Mechanism,
    kafka_broker: KafkaBroker,
    feed: TopicFeed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user, password = PLAIN_USER, PLAIN_PASSWORD
    if mechanism is Mechanism.SCRAM_SHA_256:
        user, password = "reader-256", "spring=tide,2026"
        kafka_broker.add_user(user, password, ScramMechanism.SCRAM_SHA_256)
    feed.source = replace(
        feed.source,
        brokers=kafka_broker.password_address,
        protocol=Protocol.SASL_SSL,
        mechanism=mechanism,
    )
    authorities = kafka_broker.ca_file.read_text()
    monkeypatch.setenv("KAFKA_CA", authorities)
    monkeypatch.setenv("KAFKA_USERNAME", user)
    monkeypatch.setenv("KAFKA_PASSWORD", password)
    assert feed.drain() is None
    assert feed.rows() == [(1, "a")]
    known = Credentials(user, password, authorities=authorities)
    assert look_by(feed.source, known, directly, None).partitions

    monkeypatch.setattr(broker_module, "_ANSWER_S", 3.0)
    monkeypatch.setenv("KAFKA_PASSWORD", "another-secret-2026")
    refusals = []
    with pytest.raises(ConfigError, match="the brokers refuse this client") as refused:
        feed.plan()
    refusals.append(str(refused.value))
    with pytest.raises(ConfigError, match="refuse this client: SASL_AUTHENTICATION_FAILED") as by:
        look_by(feed.source, replace(known, password="another-secret-2026"), directly, None)
    refusals.append(str(by.value))
    assert not any("another-secret-2026" in text for text in refusals)


def directly(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), 3.0)


def test_a_client_asks_for_its_token_behind_tls(
    kafka_broker: KafkaBroker, feed: TopicFeed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = tmp_path / "tokens.pem", tmp_path / "tokens-key.pem"
    make_certificate("tokens", certificate, key)
    feed.source = replace(
        feed.source,
        brokers=kafka_broker.token_address,
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
    )
    with token_server(certificate, key) as server:
        monkeypatch.setenv("KAFKA_CLIENT_ID", CLIENT)
        monkeypatch.setenv("KAFKA_CLIENT_SECRET", SECRET)
        monkeypatch.setenv("KAFKA_TOKEN_URL", server.url)
        monkeypatch.setenv("KAFKA_TOKEN_CA", certificate.read_text())
        assert feed.drain() is None
        assert feed.rows() == [(1, "a")]
        assert server.asked
