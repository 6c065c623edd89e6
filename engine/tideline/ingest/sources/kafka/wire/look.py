"""A look at topics over connections that somebody else makes.

1. One of the brokers that are declared says which topics and partitions there are, and where the
   leader of each partition is. These are addresses of the brokers' choice: they are connected to in
   the same way.
2. Each leader says the offsets of its partitions, in one request each for the first, the last, and
   those of a time; and where the epochs end that were read.
3. The whole look has a deadline. Where the leader of a partition changes meanwhile it is repeated
   for a moment.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Isolation
from tideline.ingest.sources.kafka.look import Described, look_with
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.records import Span, TopicPartition
from tideline.ingest.sources.kafka.wire.connection import BrokerConnection
from tideline.ingest.sources.kafka.wire.error_codes import (
    ErrorCode,
    LeaderChangesError,
    raise_for_code,
)
from tideline.ingest.sources.kafka.wire.fields import (
    NO_TAGS,
    Fields,
    compact_text,
    int8,
    int32,
    int64,
    text,
    varint,
)
from tideline.ingest.sources.kafka.wire.first_times import ask_for_times
from tideline.ingest.sources.source import Connect, Position
from tideline.ingest.sources.wire.bounded_socket import BoundedSocket
from tideline.ingest.sources.wire.field_reader import WireError

LOOK_S = 10.0
_LEADERS_S, _PAUSE_S = 2.0, 0.1
_LIST_OFFSETS, _METADATA, _API_VERSIONS, _ENDS_OF_EPOCHS = 2, 3, 18, 23
_METADATA_VERSIONS = (9, 12)
_IDS_SINCE, _CLUSTER_RIGHTS_UNTIL = 10, 10
_PORT = 9092
_NO_ID = "A" * 22
_Found = TypeVar("_Found")
_BYTES_MAX = 64 * 1024 * 1024
"""Of all answers of a broker."""


def look_by(
    source: DeclaredKafka,
    credentials: Credentials,
    connect: Connect,
    after: Position | None,
    *,
    asks_age: bool = False,
) -> KafkaOffsets:
    """See `look_with`. Raises StorageUnavailableError, ConfigError."""

    def look(brokers: _Asked) -> KafkaOffsets:
        return look_with(brokers, source, after, asks_age=asks_age)

    return _asked(source, credentials, connect, look)


def replaced_by(
    source: DeclaredKafka, credentials: Credentials, connect: Connect, spans: Sequence[Span]
) -> Collection[TopicPartition]:
    """See `Brokers.replaced`. Raises StorageUnavailableError, ConfigError."""

    def look(brokers: _Asked) -> Collection[TopicPartition]:
        brokers.describe({span.partition.topic for span in spans})
        # One that was deleted meanwhile, or has no leader, is another look's.
        leaders = brokers.cluster.leaders
        return brokers.replaced([it for it in spans if leaders.get(it.partition, -1) >= 0])

    return _asked(source, credentials, connect, look)


def _asked(
    source: DeclaredKafka,
    credentials: Credentials,
    connect: Connect,
    look: Callable[[_Asked], _Found],
) -> _Found:
    """What a look finds, in time. While leaders change it is repeated for a moment."""
    began_s = time.monotonic()
    while True:
        try:
            with _Asked.open(source, credentials, connect, began_s + LOOK_S) as brokers:
                return look(brokers)
        except LeaderChangesError:
            if time.monotonic() > began_s + _LEADERS_S:
                raise
            time.sleep(_PAUSE_S)


@dataclass(slots=True)
class _Cluster:
    """What a broker says: addresses of brokers by their number, and what it has of topics."""

    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Asked:
    """See `Brokers`. Its connections are open until it ends."""

    source: DeclaredKafka
    credentials: Credentials
    connect: Connect
    until_s: float
    connections: ExitStack
    first: BrokerConnection | None = None
    at: dict[tuple[str, int], BrokerConnection] = field(default_factory=dict)
    cluster: _Cluster = field(default_factory=_Cluster)

    @classmethod
    @contextmanager
    def open(
        cls, source: DeclaredKafka, credentials: Credentials, connect: Connect, until_s: float
    ) -> Iterator[_Asked]:
        with ExitStack() as connections:
            try:
                yield cls(source, credentials, connect, until_s, connections)
            except WireError as error:
                message = f"the topics cannot be looked at: this is no broker of Kafka: {error}"
                raise StorageUnavailableError(message, path=source.uri) from error

    def topic_names(self) -> Collection[str]:
        return _ask_for_topics(self._any(), None).codes

    def describe(self, topics: Collection[str]) -> Described:
        self.cluster = cluster = _ask_for_topics(self._any(), sorted(topics))
        missing = []
        for topic in sorted(topics):
            code = cluster.codes.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                missing.append(topic)
            else:
                raise_for_code(self.source, code, f"topic {topic}")
        ids = {topic: cluster.ids[topic] for topic in sorted(topics) if topic not in missing}
        led: list[TopicPartition] = []
        leaderless: list[TopicPartition] = []
        for partition, leader in sorted(cluster.leaders.items()):
            if partition.topic in ids:
                (led if leader >= 0 else leaderless).append(partition)
        return Described(ids, tuple(led), tuple(missing), tuple(leaderless))

    def offsets(
        self, partitions: Collection[TopicPartition], when_ms: int, *, has_open: bool = False
    ) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for broker, own in self._by_leader(partitions):
            found |= _ask_for_offsets(broker, own, when_ms, has_open=has_open)
        return found

    def replaced(self, spans: Sequence[Span]) -> Collection[TopicPartition]:
        read = {span.partition: (span.first, span.epoch) for span in spans}
        found: set[TopicPartition] = set()
        for broker, own in self._by_leader(read):
            epochs = {partition: read[partition][1] or 0 for partition in own}
            for partition, (epoch, end) in _ask_for_ends(broker, epochs).items():
                if partition in read and (epoch < 0 or end < read[partition][0]):
                    found.add(partition)
        return found

    def oldest_ms(self, spans: Sequence[Span]) -> int | None:
        firsts = {span.partition: span.first for span in spans}
        times_ms: list[int] = []
        for broker, own in self._by_leader(firsts):
            times_ms += ask_for_times(broker, {partition: firsts[partition] for partition in own})
        return min(times_ms, default=None)

    def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> Iterator[tuple[BrokerConnection, list[TopicPartition]]]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition in partitions:
            by_leader[self.cluster.leaders[partition]].append(partition)
        for leader, own in by_leader.items():
            if leader not in self.cluster.brokers:
                raise_for_code(self.source, ErrorCode.LEADER_NOT_AVAILABLE, str(own[0]))
            yield self._connected(*self.cluster.brokers[leader]), own

    def _any(self) -> BrokerConnection:
        """The first of the declared brokers that can be connected to."""
        if self.first is not None:
            return self.first
        away: StorageUnavailableError | None = None
        for address in self.source.brokers.split(","):
            try:
                self.first = self._connected(*_host_and_port(address.strip()))
            except StorageUnavailableError as error:
                away = error
            else:
                return self.first
        assert away is not None
        raise away

    def _connected(self, host: str, port: int) -> BrokerConnection:
        known = self.at.get((host, port))
        if known is not None:
            return known
        try:
            made = self.connect(host, port)
        except StorageUnavailableError as error:
            message = f"the topics cannot be looked at: {host}:{port}: {error.message}"
            raise StorageUnavailableError(message, path=self.source.uri) from error
        bounded = BoundedSocket(made, self.until_s, _BYTES_MAX)
        connection = BrokerConnection(self.source, bounded)
        signed = self.connections.enter_context(
            connection.open(host, self.credentials, self.connect)
        )
        self.at[host, port] = signed
        return signed


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon:
        return address, _PORT
    if not port.isdecimal():
        raise ConfigError("spec.ingest: source.brokers are host:port", value=address)
    return host.strip("[]"), int(port)


def _ask_for_topics(broker: BrokerConnection, topics: Sequence[str] | None) -> _Cluster:
    """None asks for all that the client may see."""
    version = min(_versions(broker).get(_METADATA, 0), _METADATA_VERSIONS[1])
    if version < _METADATA_VERSIONS[0]:
        raise ConfigError("the brokers are older than Kafka 2.4", path=broker.source.uri)
    has_ids = version >= _IDS_SINCE
    unnamed = bytes(16) if has_ids else b""
    wanted = b"".join(unnamed + compact_text(topic) + NO_TAGS for topic in topics or ())
    number = varint(0 if topics is None else len(topics) + 1)
    # No topic is made; and nobody wants to know who may do what.
    flags = int8(0) * (3 if version <= _CLUSTER_RIGHTS_UNTIL else 2)
    answer = broker.ask(_METADATA, version, number + wanted + flags + NO_TAGS, flexible=True)
    return _cluster_of(answer, has_ids=has_ids)


def _versions(broker: BrokerConnection) -> dict[int, int]:
    """The newest version of each request that the broker takes."""
    answer = broker.ask(_API_VERSIONS, 0, b"")
    raise_for_code(broker.source, answer.int16(), "")
    found = answer.items(lambda: (answer.int16(), answer.int16(), answer.int16()))
    return {api: newest for api, _, newest in found}


def _cluster_of(answer: Fields, *, has_ids: bool) -> _Cluster:
    cluster = _Cluster()

    def broker() -> None:
        number, host, port = answer.int32(), answer.compact_text(), answer.int32()
        answer.compact_text()
        answer.skip_tags()
        cluster.brokers[number] = host, port

    def topic() -> None:
        code, name = answer.int16(), answer.compact_text()
        cluster.codes[name] = code
        topic_id = answer.topic_id() if has_ids else _NO_ID
        answer.int8()
        for number, leader in answer.compact_items(lambda: _partition(answer)):
            if code == ErrorCode.NONE:
                cluster.ids[name] = topic_id
                cluster.leaders[TopicPartition(name, number)] = leader
        answer.int32()
        answer.skip_tags()

    answer.int32()
    answer.compact_items(broker)
    answer.compact_text()
    answer.int32()
    answer.compact_items(topic)
    return cluster


def _partition(answer: Fields) -> tuple[int, int]:
    """Its number and its leader."""
    answer.int16()
    number, leader = answer.int32(), answer.int32()
    answer.int32()
    for _ in range(3):
        answer.compact_items(answer.int32)
    answer.skip_tags()
    return number, leader


def _ask_for_offsets(
    broker: BrokerConnection, partitions: list[TopicPartition], when_ms: int, *, has_open: bool
) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.topic].append(partition.number)
    is_committed = broker.source.isolation is Isolation.READ_COMMITTED and not has_open
    isolation = int8(1 if is_committed else 0)
    body = int32(-1) + isolation + int32(len(by_topic))
    for topic, numbers in by_topic.items():
        wanted = b"".join(int32(number) + int64(when_ms) for number in numbers)
        body += text(topic) + int32(len(numbers)) + wanted
    answer = broker.ask(_LIST_OFFSETS, 2, body)
    found: dict[TopicPartition, int] = {}

    def partition_of(topic: str) -> None:
        number, code = answer.int32(), answer.int16()
        raise_for_code(broker.source, code, f"{topic}/{number}")
        answer.int64()
        found[TopicPartition(topic, number)] = answer.int64()

    def topic_offsets() -> None:
        name = answer.text()
        answer.items(lambda: partition_of(name))

    answer.int32()
    answer.items(topic_offsets)
    if not found.keys() >= set(partitions):
        raise WireError("offsets are missing")
    return found


def _ask_for_ends(
    broker: BrokerConnection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition the last epoch up to the one that is asked for, and where it ends; negative
    where the leader has no such epoch."""
    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, epoch in epochs.items():
        by_topic[partition.topic].append((partition.number, epoch))
    body = int32(len(by_topic))
    for topic, wanted in by_topic.items():
        # Whatever the epoch of the leader is now.
        items = b"".join(int32(number) + int32(-1) + int32(epoch) for number, epoch in wanted)
        body += text(topic) + int32(len(wanted)) + items
    answer = broker.ask(_ENDS_OF_EPOCHS, 2, body)
    found: dict[TopicPartition, tuple[int, int]] = {}

    def partition_of(topic: str) -> None:
        code, number = answer.int16(), answer.int32()
        raise_for_code(broker.source, code, f"{topic}/{number}")
        found[TopicPartition(topic, number)] = answer.int32(), answer.int64()

    def topic_ends() -> None:
        name = answer.text()
        answer.items(lambda: partition_of(name))

    answer.int32()
    answer.items(topic_ends)
    return found
