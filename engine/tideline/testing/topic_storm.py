"""A topic as the source of a storm: records come without a pause, some in transactions.

Where the table inserts, each record has an id of its own, and what retention takes before it was
read may be passed over (`onDataLoss: Skip`). Where it upserts, keys come again and again, some
without a value, and retention takes only what was read: nothing may be named as lost. Some keys
come once, so that no later record makes up for one that is lost.

Records of transactions that are aborted are never read; one may stay open while others commit.
Partitions are added. What the topic has is read by a client that shares no code with the ingest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, RLock, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

# Ingests load it where rows move: here before processes are forked.
from tideline.ingest.sources.kafka import reader  # noqa: F401
from tideline.ingest.sources.kafka.offsets import OnDataLoss
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.kafka_topics import KafkaTopics
from tideline.testing.stream_feed import StreamFeed
from tideline.testing.stream_storm import ChangePace, Row
from tideline.testing.topic_feed import TopicFeed

_PARTITIONS, _PARTITIONS_MAX = 3, 6
_KEYS_OF_A_PARTITION = 200
_FIRST_OF_ONCE = 1_000_000
_ANSWER_S = 60.0
_RECORDS_MAX = 150
_TICKS_PER_COMMIT = 10
_QUIET = {"log_level": 0}
"""A broker that is killed is expected."""


class TopicChanges(Thread):
    """See `StormSource`. Records are produced by this thread until all is calm."""

    names = ("id", "v")
    reads_again = False
    kills_per_server_kill = 40

    def __init__(self, broker: KafkaTopics, topic: str, seed: int, *, inserts: bool) -> None:
        super().__init__(daemon=True)
        broker.create_topic(topic, _PARTITIONS)
        self.pace = ChangePace(_TICKS_PER_COMMIT)
        self.acknowledged: set[int] = set()
        """Numbers of records outside of transactions. A producer that fails, as one whose brokers
        die often may, is replaced."""
        self._broker, self._topic, self._inserts = broker, topic, inserts
        self._partitions = _PARTITIONS
        self._records = _Records(broker, topic)
        self._feeds: list[StreamFeed] = []
        self._random = Random(seed)
        self._number, self._has_failed = 0, False
        self._changing = RLock()
        self._stopping = Event()
        self._producer = self._new_producer()
        self._transaction = _Transaction(broker, f"{topic}-transactions")
        self.start()

    def feed(self, folder: Path, table_type: str, number: int) -> TopicFeed:  # noqa: ARG002
        """The ingests of one of several tables."""
        feed = TopicFeed.of(
            folder,
            self._broker.address,
            self._topic,
            records_max=_RECORDS_MAX,
            on_data_loss=OnDataLoss.SKIP if self._inserts else OnDataLoss.FAIL,
        )
        feed.operation = "insert" if self._inserts else "upsert"
        # The order of a partition decides.
        feed.ordering, feed.table_type, feed.table_version = (), table_type, 9
        self._feeds.append(feed)
        return feed

    def watch(self, feeds: Sequence[StreamFeed]) -> None:
        """What these have read may go, where nothing else may."""
        self._feeds = list(feeds)

    def event(self, random: Random) -> str:
        if random.random() < 0.2 and self._partitions < _PARTITIONS_MAX:
            with self._changing:
                self._producer.flush(_ANSWER_S)
                self._broker.add_partitions(self._topic, self._partitions + 1)
                self._partitions += 1
                self._producer = self._new_producer()
                self._transaction.abandon()
            return "partition"
        partition = random.randrange(self._partitions)
        self._records.read_some()
        before = self._records.next.get(partition, 0)
        if not self._inserts or random.random() < 0.5:
            before = min(before, *(_read_to(feed, self._topic, partition) for feed in self._feeds))
        if before <= self._records.cut(partition):
            return "no retention"
        self._broker.delete_records(self._topic, before, partition)
        self._records.cuts.setdefault(partition, []).append(before)
        return "retention"

    def kill(self) -> None:
        assert isinstance(self._broker, KafkaBroker)
        self._broker.kill()
        self._broker.start()

    def calm(self) -> None:
        self._stopping.set()
        self.join()
        self._transaction.end(commits=True)
        assert self._producer.flush(_ANSWER_S) == 0
        self._records.read_all(self._partitions)

    def missing(self, found: Sequence[Row]) -> tuple[Sequence[Row], int]:
        if not self._inserts:
            state: dict[int, Row] = {}
            for _, key, value in self._records.in_order():
                state.pop(key, None)
                if value is not None:
                    state[key] = (key, value)
            return sorted(state.values()), 0
        here = {row[0] for row in found}
        must = {number for _, number, _ in self._records.in_order()}
        lost = self.acknowledged - must
        assert not lost, f"the broker lost {len(lost)} records"
        gone = self._records.passed_over(here)
        rows = [
            (number, value) for _, number, value in self._records.in_order() if number not in gone
        ]
        return sorted(rows), len(gone)

    def run(self) -> None:
        while not self._stopping.is_set():
            with self._changing:
                if self._has_failed:
                    self._has_failed, self._producer = False, self._new_producer()
                for _ in range(self._random.randrange(12)):
                    self._produce()
                self._producer.poll(0)
                self._transaction.step(self._random, self._record)
            self.pace.wait()

    def _produce(self) -> None:
        partition, key, value = self._record()
        number = self._number

        def delivered(error: object, _: object) -> None:
            if error is not None:
                # It may be in the topic, or not: the topic says.
                self._has_failed = True
            elif self._inserts:
                self.acknowledged.add(number)

        try:
            self._producer.produce(
                self._topic, key=key, value=value, partition=partition, on_delivery=delivered
            )
        except KafkaException:
            self._has_failed = True

    def _record(self) -> tuple[int, str, str | None]:
        """The next one: its partition, key and value."""
        random = self._random
        self._number += 1
        partition = random.randrange(self._partitions)
        if self._inserts:
            key = self._number
        elif random.random() < 0.3:
            key = _FIRST_OF_ONCE + self._number
        else:
            key = partition * _KEYS_OF_A_PARTITION + random.randrange(_KEYS_OF_A_PARTITION)
            if random.random() < 0.1:
                return partition, str(key), None
        value = {"id": key, "ts": 1, "v": f"{self._number}{'x' * random.randrange(40)}"}
        return partition, str(key), json.dumps(value)

    def _new_producer(self) -> Producer:
        return self._broker.producer(**_QUIET, **{"enable.idempotence": True})


@dataclass(slots=True)
class _Transaction:
    """A producer of transactions, one at a time."""

    broker: KafkaTopics
    name: str
    producer: Producer | None = None
    ends_s: float = 0.0
    is_open: bool = False

    def step(self, random: Random, record: Any) -> None:
        """Begin one, or end the one whose time has come; start again after an error."""
        try:
            if self.is_open:
                if time.monotonic() > self.ends_s:
                    self.end(commits=random.random() < 0.6)
                return
            if self.producer is None:
                own = {"transactional.id": self.name, "transaction.timeout.ms": 10_000}
                self.producer = self.broker.producer(**_QUIET, **own)
                self.producer.init_transactions(_ANSWER_S)
            self.producer.begin_transaction()
            self.is_open = True
            topic = self.name.removesuffix("-transactions")
            for _ in range(random.choice((1, 5, 30))):
                partition, key, value = record()
                self.producer.produce(topic, key=key, value=value, partition=partition)
            self.producer.flush(1.0)
            self.ends_s = time.monotonic() + random.choice((0.0, 0.1, 1.5))
        except KafkaException:
            self.abandon()

    def end(self, *, commits: bool) -> None:
        """What an error leaves undecided the next producer of the name aborts."""
        if self.producer is None or not self.is_open:
            return
        try:
            if commits:
                self.producer.commit_transaction(_ANSWER_S)
            else:
                self.producer.abort_transaction(_ANSWER_S)
            self.is_open = False
        except KafkaException:
            self.abandon()

    def abandon(self) -> None:
        """The next one begins with a producer of its own."""
        self.producer, self.is_open = None, False


@dataclass(slots=True)
class _Records:
    """What the topic has had that is committed, by partition and offset, and where its beginnings
    were cut off."""

    broker: KafkaTopics
    topic: str
    found: dict[tuple[int, int], tuple[int, str | None]] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    cuts: dict[int, list[int]] = field(default_factory=dict)

    def cut(self, partition: int) -> int:
        return max(self.cuts.get(partition, ()), default=0)

    def in_order(self) -> list[tuple[int, int, str | None]]:
        """Partition, key, and the column `v` of each record."""
        return [
            (partition, key, value) for (partition, _), (key, value) in sorted(self.found.items())
        ]

    def passed_over(self, here: set[int]) -> set[int]:
        """Keys that may be missing: those of records directly before a cut, without one that is
        there between."""
        gone = set()
        for partition, cuts in self.cuts.items():
            own = sorted(
                (offset, key) for (of, offset), (key, _) in self.found.items() if of == partition
            )
            for cut in cuts:
                for offset, key in reversed(own):
                    if offset >= cut:
                        continue
                    if key in here:
                        break
                    gone.add(key)
        return gone

    def read_some(self) -> None:
        """What comes within a moment."""
        with suppress(KafkaException):
            self._read(sorted(self.next) or range(_PARTITIONS), {}, time.monotonic() + 1.0)

    def read_all(self, partitions: int) -> None:
        """All there is, of all partitions."""
        ends = {}
        consumer = self._consumer()
        for number in range(partitions):
            wanted = TopicPartition(self.topic, number)
            ends[number] = consumer.get_watermark_offsets(wanted, _ANSWER_S)[1]
        consumer.close()
        self._read(range(partitions), ends, time.monotonic() + _ANSWER_S)
        behind = {number: end for number, end in ends.items() if self.next.get(number, 0) < end}
        assert not behind, (behind, self.next)

    def _read(self, partitions: Sequence[int], ends: dict[int, int], ends_s: float) -> None:
        consumer = self._consumer()
        consumer.assign(
            [TopicPartition(self.topic, number, self.next.get(number, 0)) for number in partitions]
        )
        while time.monotonic() < ends_s:
            messages = consumer.consume(1, 0.3)
            messages += consumer.consume(10_000, 0)
            for message in messages:
                error = message.error()
                assert error is None or error.code() != KafkaError._AUTO_OFFSET_RESET, str(error)
                if error is None:
                    self._note(message)
            for at in consumer.position(consumer.assignment()):
                self.next[at.partition] = max(at.offset, self.next.get(at.partition, 0))
            if ends and all(self.next.get(number, 0) >= end for number, end in ends.items()):
                break
        consumer.close()

    def _note(self, message: Any) -> None:
        value = message.value()
        key, text = int(message.key()), None if value is None else json.loads(value)["v"]
        self.found[message.partition(), message.offset()] = (key, text)

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "storm",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
            }
        )


def _read_to(feed: StreamFeed, topic: str, partition: int) -> int:
    """Where a table is in a partition."""
    checkpoint = feed.checkpoint()
    position = None if checkpoint is None else checkpoint.position
    if not isinstance(position, KafkaPosition):
        return 0
    known = {(at.topic, at.number): offset for at, offset in position.next.items()}
    return known.get((topic, partition), 0)
