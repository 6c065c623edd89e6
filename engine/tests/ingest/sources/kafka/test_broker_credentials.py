"""Credentials for brokers are those that a look is given, and never others."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.ingest.sources.kafka.credentials import (
    AUTHORITIES_FILE,
    PASSWORD,
    SECRET_KEYS,
    USERNAME,
    Credentials,
)
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Protocol
from tideline.ingest.sources.source import Reach
from tideline.secret_values import masked
from tideline.storage.object_store import ObjectStore

pytest.importorskip("confluent_kafka")

SIGNED = DeclaredKafka(
    brokers="127.0.0.1:1", topics=("orders",), schema=(), protocol=Protocol.SASL_PLAINTEXT
)


def no_store(_: object) -> ObjectStore:
    raise AssertionError("topics need no store")


def test_a_look_has_no_credentials_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USERNAME, "of-the-process")
    monkeypatch.setenv(PASSWORD, "of-the-process")
    with pytest.raises(ConfigError, match="KAFKA_USERNAME is not set"):
        SIGNED.positions(Reach(no_store), None)
    with pytest.raises(ConfigError, match="KAFKA_PASSWORD is not set"):
        SIGNED.positions(Reach(no_store, {USERNAME: "tenant"}), None)


def test_values_are_masked_and_not_shown() -> None:
    found = Credentials.of({USERNAME: "reader", PASSWORD: "spring-tide-2026"})
    assert (found.username, found.password) == ("reader", "spring-tide-2026")
    assert "spring" not in f"{found!r} {found}"
    assert masked("refused: spring-tide-2026") == "refused: ***"


def test_no_key_of_a_secret_names_a_file() -> None:
    """It would be one of the process that reads the Secret."""
    assert AUTHORITIES_FILE not in SECRET_KEYS
