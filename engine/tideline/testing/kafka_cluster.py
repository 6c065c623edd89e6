"""Two real brokers of Kafka on the loopback interface: the second one stops and starts.

The first is the controller too. A topic has its partitions on the brokers that a test names, with
one replica each: while the second broker is stopped, nobody leads those that are there.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.cimpl import NewTopic

from tideline.testing.free_port import free_port
from tideline.testing.kafka_broker import CLUSTER_ID, build, is_open, java
from tideline.testing.kafka_topics import KafkaTopics
from tideline.testing.server_process import ServerProcess

FIRST, SECOND = 1, 2
_ANSWER_S = 30.0
_SETTINGS = """\
node.id={number}
controller.quorum.voters=1@127.0.0.1:{controller}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROL:PLAINTEXT
controller.listener.names=CONTROL
inter.broker.listener.name=PLAIN
log.dirs={folder}/logs-{number}
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
"""
_FIRST = """\
process.roles=broker,controller
listeners=PLAIN://127.0.0.1:{port},CONTROL://127.0.0.1:{controller}
"""
_SECOND = """\
process.roles=broker
listeners=PLAIN://127.0.0.1:{port}
"""


class KafkaCluster(KafkaTopics):
    """Its address is that of the first broker. `settings` are more lines of what brokers are
    configured with."""

    def __init__(self, folder: Path, *, settings: str = "") -> None:
        self._folder, self._settings = folder, settings
        controller, first, second = free_port(), free_port(), free_port()
        self.addresses = {FIRST: f"127.0.0.1:{first}", SECOND: f"127.0.0.1:{second}"}
        super().__init__(self.addresses[FIRST])
        self._brokers = {
            number: self._broker(number, port, controller, roles)
            for number, port, roles in ((FIRST, first, _FIRST), (SECOND, second, _SECOND))
        }

    def __enter__(self) -> Self:
        for broker in self._brokers.values():
            broker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in reversed(self._brokers.values()):
            broker.kill()

    def create_on(self, topic: str, brokers: Sequence[int]) -> None:
        """A new topic, each of whose partitions is on one of these brokers."""
        self.create_replicated(topic, [[number] for number in brokers])

    def create_replicated(self, topic: str, places: Sequence[Sequence[int]]) -> None:
        """A new topic, each of whose partitions is on all of some brokers; the first leads it. Its
        records stay until they are deleted."""
        assigned = [list(place) for place in places]
        config = {"retention.ms": "-1"}
        new = NewTopic(topic, len(assigned), replica_assignment=assigned, config=config)
        admin = self.admin()
        admin.create_topics([new])[topic].result(_ANSWER_S)
        self.wait_for_leaders(topic, [place[0] for place in places])

    def kill(self, number: int) -> None:
        """End a broker at once; what it has stored is there when it is started again."""
        self._brokers[number].kill()

    def start(self, number: int) -> None:
        """After `kill`."""
        self._brokers[number].start()

    def stop_second(self, topic: str) -> None:
        """End it, and wait until nobody leads what the topic has on it."""
        self._brokers[SECOND].kill()
        found = self.leaders(topic)
        self.wait_for_leaders(topic, [number if number == FIRST else -1 for number in found])

    def start_second(self, topic: str, brokers: Sequence[int]) -> None:
        """Start it again; the partitions of the topic are on these brokers."""
        self._brokers[SECOND].start()
        self.wait_for_leaders(topic, brokers)

    def leaders(self, topic: str) -> list[int]:
        """The leader of each partition, -1 where it has none."""
        found = self.admin().list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
        return [found[number].leader for number in sorted(found)]

    def wait_for_leaders(self, topic: str, wanted: Sequence[int]) -> None:
        """Until each partition has the one that is wanted, -1 for none."""
        deadline_s = time.monotonic() + _ANSWER_S
        while self.leaders(topic) != list(wanted):
            assert time.monotonic() < deadline_s, self.leaders(topic)
            time.sleep(0.1)

    def _broker(self, number: int, port: int, controller: int, roles: str) -> ServerProcess:
        self._folder.mkdir(parents=True, exist_ok=True)
        settings = self._folder / f"server-{number}.properties"
        settings.write_text(
            (roles + _SETTINGS).format(
                number=number, port=port, controller=controller, folder=self._folder
            )
            + self._settings
        )
        format_storage = ("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID)
        subprocess.run(
            [*java(build()), *format_storage, "-c", str(settings)], check=True, capture_output=True
        )
        return ServerProcess(
            f"broker {number}",
            lambda: [*java(build()), "kafka.Kafka", str(settings)],
            self._folder / f"broker-{number}.log",
            lambda: is_open(port),
        )
