"""A topic on two real brokers as the source of a storm, beside what `topic_storm` does to it.

Either broker is killed and stays away for a while, the one with the controller as well. Meanwhile
the other one leads the partitions that both have, and nobody leads those that only the dead one
has. Partitions move: one or both brokers have them, and the first of these leads.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from confluent_kafka import ElectionType, KafkaException, TopicPartition

from tideline.ingest.sources.kafka.wire.fields import (
    NO_TAGS,
    Fields,
    compact_text,
    int16,
    int32,
    sized,
    text,
    varint,
)
from tideline.testing.kafka_cluster import FIRST, SECOND, KafkaCluster
from tideline.testing.topic_storm import TopicChanges

_ANSWER_S, _PATIENCE_S, _PAUSE_S = 30.0, 120.0, 0.2
_MOVED_S = 5.0
_MOVE_PARTITIONS = 45
"""The request AlterPartitionReassignments, which the client does not have."""
_PLACES = ((FIRST,), (SECOND,), (FIRST, SECOND), (SECOND, FIRST))
_AWAY_S = (0.0, 1.0, 5.0)
"""A broker is known to be away after three seconds."""
_SETTINGS = """\
transaction.state.log.replication.factor=2
transaction.state.log.num.partitions=4
"""


class StormCluster(KafkaCluster):
    """Its address has both brokers. Each topic begins with all partitions on both."""

    def __init__(self, folder: Path, *, settings: str = "") -> None:
        super().__init__(folder, settings=_SETTINGS + settings)
        self.address = ",".join(self.addresses.values())

    def create_topic(self, topic: str, partitions: int = 1, **settings: str) -> None:
        assert not settings
        self.create_replicated(topic, [_PLACES[2 + number % 2] for number in range(partitions)])

    def add_partitions(self, topic: str, total: int) -> None:
        def add() -> None:
            if len(self.leaders(topic)) < total:
                super(StormCluster, self).add_partitions(topic, total)

        _patiently(add)

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """Until it has happened: leaders change, and what is gone once stays gone."""
        delete = super().delete_records
        _patiently(lambda: delete(topic, before, partition))

    def move(self, topic: str, partition: int, brokers: Sequence[int]) -> bool:
        """Have these brokers have a partition, the first of them lead it; whether that came about
        within a moment."""
        _patiently(lambda: self.begin_move(topic, partition, brokers))
        deadline_s = time.monotonic() + _MOVED_S
        while time.monotonic() < deadline_s:
            found = self.admin().list_topics(topic, timeout=_ANSWER_S).topics[topic]
            at = found.partitions[partition]
            if list(at.replicas) == list(brokers) and set(at.isrs) == set(brokers):
                if at.leader == brokers[0]:
                    return True
                self._elect_first(topic, partition)
            time.sleep(_PAUSE_S)
        return False

    def begin_move(self, topic: str, partition: int, brokers: Sequence[int]) -> None:
        """Ask that these brokers have a partition."""
        replicas = varint(len(brokers) + 1) + b"".join(map(int32, brokers))
        of_partition = int32(partition) + replicas + NO_TAGS
        of_topic = compact_text(topic) + varint(2) + of_partition + NO_TAGS
        body = int32(int(_ANSWER_S * 1000)) + varint(2) + of_topic + NO_TAGS
        answer = _answer(self.addresses[SECOND], _MOVE_PARTITIONS, body)
        answer.int32()
        assert answer.int16() == 0, answer.compact_text()

    def _elect_first(self, topic: str, partition: int) -> None:
        wanted = [TopicPartition(topic, partition)]
        admin = self.admin()
        admin.elect_leaders(ElectionType.PREFERRED, wanted).result(_ANSWER_S)


class ClusterChanges(TopicChanges):
    """See `StormSource`."""

    kills_per_server_kill = 10

    def __init__(self, cluster: StormCluster, topic: str, seed: int, *, inserts: bool) -> None:
        self._cluster = cluster
        # The other one is drawn from by the thread that produces.
        self._of_servers = Random(seed)
        super().__init__(cluster, topic, seed, inserts=inserts)

    def event(self, random: Random) -> str:
        if random.random() < 0.5:
            return super().event(random)
        partition, brokers = random.randrange(self._partitions), random.choice(_PLACES)
        is_moved = self._cluster.move(self._topic, partition, brokers)
        return "move" if is_moved else "slow move"

    def kill(self) -> None:
        number = self._of_servers.choice((FIRST, SECOND, SECOND))
        self._cluster.kill(number)
        time.sleep(self._of_servers.choice(_AWAY_S))
        self._cluster.start(number)


def _patiently(action: Callable[[], None]) -> None:
    """Again, as long as brokers that have just started are not ready for it."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            action()
        except (KafkaException, OSError, AssertionError):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _answer(address: str, api: int, body: bytes) -> Fields:
    """That to a request in its first version, which is a flexible one."""
    host, _, port = address.partition(":")
    head = int16(api) + int16(0) + int32(1) + text("storm") + NO_TAGS
    with socket.create_connection((host, int(port)), _ANSWER_S) as connection:
        connection.sendall(sized(head + body))
        with connection.makefile("rb") as stream:
            size = Fields(stream.read(4)).int32()
            found = Fields(stream.read(size))
    found.int32()
    found.skip_tags()
    return found
