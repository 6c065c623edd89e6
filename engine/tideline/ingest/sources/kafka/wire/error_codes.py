"""Kafka's error codes, as far as looks meet them: what a user has to correct, and what passes."""

from __future__ import annotations

from enum import IntEnum

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka.declared import DeclaredKafka


class ErrorCode(IntEnum):
    """The names are Kafka's."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    SASL_AUTHENTICATION_FAILED = 58
    OFFSET_NOT_AVAILABLE = 78


_REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    ErrorCode.ILLEGAL_SASL_STATE,
    ErrorCode.SASL_AUTHENTICATION_FAILED,
}


_PASSING = {
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_NOT_AVAILABLE,
}


class LeaderChangesError(StorageUnavailableError):
    """A partition has another leader in a moment."""


def raise_for_code(source: DeclaredKafka, code: int, about: str) -> None:
    """Nothing for NONE. Raises ConfigError for a refusal, else StorageUnavailableError, as
    LeaderChangesError where the leader changes."""
    if code == ErrorCode.NONE:
        return
    names = {item.value: item.name for item in ErrorCode}
    words = names.get(code, f"error {code}")
    message = f"{words}: {about}" if about else words
    if code in _REFUSALS:
        raise ConfigError(f"the brokers refuse this client: {message}", path=source.uri)
    kind = LeaderChangesError if code in _PASSING else StorageUnavailableError
    raise kind(f"the topics cannot be looked at: {message}", path=source.uri)
