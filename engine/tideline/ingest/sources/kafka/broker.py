"""Talking to brokers: what offsets there are, and the records of a range.

1. A consumer is given its partitions and offsets, and is in no group of its own making: nothing is
   committed to the brokers, and nothing they remember decides what is read.
2. The end of a span is where the consumer's position reaches it: the last offsets of a span may be
   markers of transactions, of aborted records, or compacted away.

What reads records does so with the credentials of the environment.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.kafka.clients import Complaints, admin_of, complaints_of, consumer_of
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Isolation, RecordField
from tideline.ingest.sources.kafka.look import FIRST_MS, LAST_MS, Described, look_with
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.records import (
    KafkaRange,
    Records,
    Span,
    TopicPartition,
    time_ms_of,
)
from tideline.ingest.sources.kafka.span_places import SpanPlaces
from tideline.ingest.sources.kafka.wire.look import replaced_by
from tideline.ingest.sources.source import Position

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message
    from confluent_kafka.admin import AdminClient

_ANSWER_S = 20.0
_CHOSEN_S = 3.0
"""How long a broker is waited for while others may answer."""
_MARGIN_S = 5.0
"""How much longer than the client is waited for the client."""
_SILENCE_S = 60.0
_BATCH = 10_000
_POLL_S = 1.0
_QUEUED_MIN, _QUEUED_MAX = 256, 100_000
_QUEUE_PAUSE_MS = 5
_PAUSE_S = 0.1
_AGE_S = 2.0
_NO_LOOK = "the topics cannot be looked at"
_NO_RECORDS = "records cannot be read"
_NO_OFFSETS = "the brokers do not say yet where the partitions end"


def look_at(
    source: DeclaredKafka,
    credentials: Credentials,
    after: Position | None,
    *,
    asks_age: bool,
    compares: bool = False,
) -> KafkaOffsets:
    """The offsets of all partitions now; without `after`, those at which a table begins that has
    read nothing among them. Raises StorageUnavailableError, ConfigError.

    Where it `asks_age`, the first record of each partition that waits is read. See `look_with`.
    """
    with (
        complaints_of(source, credentials, _NO_LOOK) as complaints,
        admin_of(source, complaints) as admin,
    ):
        asked = _Asked(source, admin, complaints)
        return look_with(asked, source, after, asks_age=asks_age, compares=compares)


def read_records(
    source: DeclaredKafka,
    taken: KafkaRange,
    shifts: Mapping[TopicPartition, int] | None = None,
    epochs: dict[TopicPartition, int] | None = None,
) -> Iterator[Records]:
    """The records of a range, some at a time; those of one partition come in their order.

    Their places are in a larger range where `shifts` are those of one. In `epochs` it is noted of
    what epochs the last records are, once all came. Raises ConfigError, StorageUnavailableError.
    """
    with (
        complaints_of(source, Credentials.of(os.environ), _NO_RECORDS) as complaints,
        consumer_of(source, complaints, _queue_settings(taken)) as consumer,
    ):
        reading = _Reading(source, taken, shifts or taken.shifts, complaints)
        yield from reading.read(consumer)
    if epochs is not None:
        epochs |= reading.epochs


def require_same_topics(
    source: DeclaredKafka, taken: KafkaRange, epochs: Mapping[TopicPartition, int] | None = None
) -> None:
    """What was read is of the topics that were planned, and in `epochs` of the same logs. Raises
    StorageUnavailableError where a topic was deleted and created again meanwhile, or a log cut off:
    their offsets would be read without an error."""
    with (
        complaints_of(source, Credentials.of(os.environ), _NO_LOOK) as complaints,
        admin_of(source, complaints) as admin,
    ):
        topics = {span.partition.topic for span in taken.spans}
        ids = _Asked(source, admin, complaints).describe(topics).ids
    for span in taken.spans:
        if ids.get(span.partition.topic) != span.topic_id:
            raise StorageUnavailableError(
                f"topic {span.partition.topic} was deleted while it was read", path=source.uri
            )
    known = [span for span in taken.spans if span.epoch is not None]
    others = [
        span for span in known if (epochs or {}).get(span.partition, span.epoch) != span.epoch
    ]
    if others and _replaced(source, Credentials.of(os.environ), others):
        raise StorageUnavailableError(
            "the brokers lost records while they were read", path=source.uri
        )


@dataclass(slots=True)
class _Reading:
    """One range that is read."""

    source: DeclaredKafka
    taken: KafkaRange
    shifts: Mapping[TopicPartition, int]
    complaints: Complaints
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)

    def read(self, consumer: Consumer) -> Iterator[Records]:
        spans = [span for span in self.taken.spans if span.length]
        self.ends = {span.partition: span.end for span in spans}
        places = SpanPlaces.of(spans, self.shifts)
        consumer.assign([_assigned(span.partition, span.first) for span in spans])
        heard_s = time.monotonic()
        while self.ends:
            # Waiting for many would wait for the last one: the first, then what is here with it.
            messages = consumer.consume(1, _POLL_S)
            if messages:
                messages += consumer.consume(_BATCH, 0)
            yield self._wanted(messages, places)
            before = len(self.ends)
            self._drop_finished(consumer)
            if messages or len(self.ends) < before:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > _SILENCE_S:
                waiting = ", ".join(map(str, sorted(self.ends)))
                what = f"no record of {waiting} came for {_SILENCE_S:.0f} s"
                self.complaints.raise_for(self.source, what, None)

    def _wanted(self, messages: list[Message], places: SpanPlaces) -> Records:
        """The records among these messages that are within their spans."""
        found = [message for message in messages if message.error() is None]
        if len(found) < len(messages):
            for message in messages:
                self._note(message)
        asks_time = RecordField.TIMESTAMP in self.source.record_fields
        return places.records(found, asks_time=asks_time, asks_headers=self.source.reads_headers)

    def _note(self, message: Message) -> None:
        """Raises what stands in the place of a record."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return
        if error.code() == KafkaError._LOG_TRUNCATION:
            raise StorageUnavailableError(
                f"{message.topic()}/{message.partition()} has other records than were looked at",
                path=self.source.uri,
            )
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise StorageUnavailableError(
                f"{message.topic()}/{message.partition()} has no such offset any more",
                path=self.source.uri,
            )
        if error.code() == KafkaError._BAD_MSG:
            self._note_damage(message, error)
            return
        self.complaints.raise_for(self.source, _NO_RECORDS, error)

    def _note_damage(self, message: Message, error: KafkaError) -> None:
        """Raises where records of the range are damaged; what is behind it is the next one's."""
        partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
        offset = int(message.offset() or 0)
        if offset < self.ends.get(partition, 0):
            raise StorageUnavailableError(
                f"{partition} has damaged records from offset {offset:,} on ({error.str()}): "
                "restore the partition from a replica; or take in those before with a lower "
                "source.maxRecordsPerCommit, delete the damaged ones with kafka-delete-records, "
                "and set source.onDataLoss: Skip",
                path=self.source.uri,
            )

    def _drop_finished(self, consumer: Consumer) -> None:
        """Partitions whose span was read to its end are read no further."""
        finished = []
        for found in consumer.position(list(map(_assigned, self.ends))):
            partition = TopicPartition(found.topic, found.partition)
            if found.offset >= self.ends[partition]:
                finished.append(_assigned(partition))
                del self.ends[partition]
                if found.leader_epoch is not None and found.leader_epoch >= 0:
                    self.epochs[partition] = found.leader_epoch
        if finished:
            consumer.incremental_unassign(finished)


def _is_passing(error: KafkaError) -> bool:
    """Whether a leader is found in a moment."""
    return error.code() in (
        error.NOT_LEADER_FOR_PARTITION,
        error.LEADER_NOT_AVAILABLE,
        error.OFFSET_NOT_AVAILABLE,
        error.FENCED_LEADER_EPOCH,
        error.UNKNOWN_LEADER_EPOCH,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """See `Brokers`."""

    source: DeclaredKafka
    admin: AdminClient
    complaints: Complaints
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Of the leaders that have said where their partitions end."""

    def topic_names(self) -> Collection[str]:
        return self.admin.list_topics(timeout=_ANSWER_S).topics

    def describe(self, topics: Collection[str]) -> Described:
        from confluent_kafka import KafkaError, KafkaException

        ids: dict[str, str] = {}
        led: list[TopicPartition] = []
        leaderless: list[TopicPartition] = []
        missing = []
        for topic, found in self._described(sorted(topics)).items():
            if isinstance(found, KafkaException):
                if found.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise found
                missing.append(topic)
                continue
            ids[topic] = str(found.topic_id)
            for partition in found.partitions:
                has_leader = partition.leader is not None and partition.leader.id >= 0
                (led if has_leader else leaderless).append(TopicPartition(topic, partition.id))
        return Described(ids, tuple(sorted(led)), tuple(missing), tuple(sorted(leaderless)))

    def _described(self, topics: list[str]) -> dict[str, Any]:
        """What is said of each topic, or why nothing is. A kept client asks a broker that it chose
        before, and waits for it where that is down: then the brokers are listed again."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        def asked(timeout_s: float) -> dict[str, Any]:
            wanted = TopicCollection(topics)
            futures = self.admin.describe_topics(wanted, request_timeout=timeout_s)
            found: dict[str, Any] = {}
            for topic, future in futures.items():
                try:
                    found[topic] = future.result(timeout_s + _MARGIN_S)
                except KafkaException as error:
                    found[topic] = error
            return found

        found = asked(min(_CHOSEN_S, _ANSWER_S))
        errors = (item.args[0] for item in found.values() if isinstance(item, KafkaException))
        if any(error.code() == KafkaError._TIMED_OUT for error in errors):
            self.admin.list_topics(topics[0], timeout=_ANSWER_S)
            found = asked(_ANSWER_S)
        return found

    def offsets(
        self, partitions: Collection[TopicPartition], when_ms: int, *, has_open: bool = False
    ) -> Mapping[TopicPartition, int]:
        """Partitions whose leader changes are asked for again, and those of a broker that has just
        started, which answers without an offset."""
        from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaException
        from confluent_kafka import admin as of_admins

        specs: Any = vars(of_admins)["OffsetSpec"]
        named = {FIRST_MS: specs.earliest, LAST_MS: specs.latest}
        wanted = named[when_ms]() if when_ms in named else specs.for_timestamp(when_ms)
        isolation = IsolationLevel[self.source.isolation.name]
        if has_open:
            isolation = IsolationLevel.READ_UNCOMMITTED
        offsets: dict[TopicPartition, int] = {}
        deadline_s = time.monotonic() + _ANSWER_S
        while len(offsets) < len(partitions):
            futures = self.admin.list_offsets(
                {_assigned(item): wanted for item in partitions if item not in offsets},
                isolation_level=isolation,
                request_timeout=_ANSWER_S,
            )
            for found, future in futures.items():
                try:
                    result = future.result(_ANSWER_S + _MARGIN_S)
                except KafkaException as error:
                    if not _is_passing(error.args[0]) or time.monotonic() > deadline_s:
                        raise
                    continue
                if result.offset != OFFSET_INVALID:
                    partition = TopicPartition(found.topic, found.partition)
                    offsets[partition] = result.offset
                    if when_ms == LAST_MS and result.leader_epoch is not None:
                        self.epochs[partition] = result.leader_epoch
            if len(offsets) < len(partitions):
                if time.monotonic() > deadline_s:
                    raise StorageUnavailableError(_NO_OFFSETS, path=self.source.uri)
                time.sleep(_PAUSE_S)
        return offsets

    def replaced(self, spans: Sequence[Span]) -> Collection[TopicPartition]:
        """While a leader leads nothing is replaced."""
        asked = [span for span in spans if self.epochs.get(span.partition, -1) != span.epoch]
        return _replaced(self.source, self.complaints.credentials, asked) if asked else ()

    def oldest_ms(self, spans: Sequence[Span]) -> int | None:
        return _oldest_ms(self.source, self.complaints, spans)


def _oldest_ms(source: DeclaredKafka, complaints: Complaints, spans: Sequence[Span]) -> int | None:
    """The least time of first records of these spans, of those that come soon; those of open
    transactions have one as well."""
    source = replace(source, isolation=Isolation.READ_UNCOMMITTED)
    with consumer_of(source, complaints) as consumer:
        consumer.assign([_assigned(span.partition, span.first) for span in spans])
        awaited = {(span.partition.topic, span.partition.number) for span in spans}
        times_ms = []
        deadline_s = time.monotonic() + _AGE_S
        while awaited and time.monotonic() < deadline_s:
            messages = consumer.consume(1, _PAUSE_S)
            messages += consumer.consume(_BATCH, 0)
            come = []
            for message in messages:
                partition = (message.topic(), message.partition())
                if partition in awaited:
                    awaited.discard(partition)
                    come.append(partition)
                    moment_ms = None if message.error() else time_ms_of(message)
                    if moment_ms is not None:
                        times_ms.append(moment_ms)
            if come:
                consumer.incremental_unassign(
                    [_assigned(TopicPartition(*partition)) for partition in come]
                )
    return min(times_ms, default=None)


def _replaced(
    source: DeclaredKafka, credentials: Credentials, spans: Sequence[Span]
) -> Collection[TopicPartition]:
    """Those of these spans whose log is another one before them. The client does not ask for that
    where it begins to read: it is asked for over connections of this process."""

    def connect(host: str, port: int) -> socket.socket:
        try:
            return socket.create_connection((host, port), _ANSWER_S)
        except OSError as error:
            raise StorageUnavailableError(str(error)) from error

    return replaced_by(source, credentials, connect, spans)


def _assigned(partition: TopicPartition, offset: int | None = None) -> Any:
    from confluent_kafka import TopicPartition as Assigned

    given = () if offset is None else (offset,)
    return Assigned(partition.topic, partition.number, *given)


def _queue_settings(taken: KafkaRange) -> dict[str, int]:
    """The client fetches ahead, by default 100,000 records of each partition and all in vain
    behind the end of a span; and waits a second where its queue was full."""
    longest = max((span.length for span in taken.spans), default=0)
    # One client serves ranges of about one size.
    rounded = 1 << max(longest - 1, 0).bit_length()
    return {
        "queued.min.messages": min(max(rounded, _QUEUED_MIN), _QUEUED_MAX),
        "fetch.queue.backoff.ms": _QUEUE_PAUSE_MS,
    }
