"""What tests do to the topics and users of a broker."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

_ANSWER_S = 30.0
_QUEUED_MAX = 50_000


class KafkaTopics:
    """Those of the broker at an address that takes anyone."""

    def __init__(self, address: str) -> None:
        self.address = address

    def add_user(
        self, name: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    ) -> None:
        """Who may sign in with it."""
        admin = self.admin()
        info = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion(name, info, password.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(_ANSWER_S)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address})

    def create_topic(self, topic: str, partitions: int = 1, **settings: str) -> None:
        """A new topic; settings are Kafka's, with `_` for each dot."""
        config = {"retention.ms": "-1"}
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        admin = self.admin()
        new = NewTopic(topic, partitions, 1, config=config)
        admin.create_topics([new])[topic].result(_ANSWER_S)
        _wait(lambda: topic in admin.list_topics(timeout=_ANSWER_S).topics)

    def delete_topic(self, topic: str) -> None:
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(_ANSWER_S)
        _wait(lambda: topic not in admin.list_topics(timeout=_ANSWER_S).topics)

    def add_partitions(self, topic: str, total: int) -> None:
        admin = self.admin()
        admin.create_partitions([NewPartitions(topic, total)])[topic].result(_ANSWER_S)
        _wait(
            lambda: (
                len(admin.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions) == total
            )
        )

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """What retention does: offsets before this one are gone."""
        from confluent_kafka import TopicPartition

        admin = self.admin()
        wanted = TopicPartition(topic, partition, before)
        for future in admin.delete_records([wanted]).values():
            future.result(_ANSWER_S)

    def topic_id(self, topic: str) -> str:
        admin = self.admin()
        found = admin.describe_topics(TopicCollection([topic]))[topic].result(_ANSWER_S)
        return str(found.topic_id)

    def produce(
        self,
        topic: str,
        records: Iterable[tuple[Any, Any]],
        *,
        partition: int = 0,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = 0,
        **settings: Any,
    ) -> None:
        """Keys and values, into one partition; flushed."""
        producer = self.producer(**settings)
        for key, value in records:
            producer.produce(
                topic,
                key=key,
                value=value,
                partition=partition,
                headers=list(headers),
                timestamp=timestamp_ms,
            )
            # The queue of the client has a limit.
            producer.poll(0 if len(producer) < _QUEUED_MAX else 0.05)
        assert producer.flush(_ANSWER_S) == 0

    def producer(self, **settings: Any) -> Producer:
        given: Mapping[str, Any] = {"bootstrap.servers": self.address, "linger.ms": 5}
        return Producer({**given, **settings})


def _wait(holds: Any) -> None:
    deadline_s = time.monotonic() + _ANSWER_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
