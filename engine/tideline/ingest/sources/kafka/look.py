"""What a look at topics asks for, by any client: a few requests to each broker, however many
partitions there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tideline.clock import SystemClock
from tideline.ingest.sources.kafka.declared import EARLIEST, LATEST, DeclaredKafka, Isolation
from tideline.ingest.sources.kafka.offsets import KafkaOffsets, PartitionOffsets
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import Span, TopicPartition
from tideline.ingest.sources.source import Position

FIRST_MS, LAST_MS = -2, -1
"""Kafka's times of the first offset of a partition, and of the one behind what may be read."""


@dataclass(frozen=True, slots=True)
class Described:
    """Ids of the topics that are there, those of their partitions that have a leader and those that
    have none, and topics that are missing."""

    ids: Mapping[str, str] = field(default_factory=dict)
    led: tuple[TopicPartition, ...] = ()
    missing: tuple[str, ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()


class Brokers(Protocol):
    """What brokers are asked for. Raises StorageUnavailableError, ConfigError."""

    def topic_names(self) -> Collection[str]:
        """All topics that the client may see."""

    def describe(self, topics: Collection[str]) -> Described:
        """Those of these topics."""
        ...

    def offsets(
        self, partitions: Collection[TopicPartition], when_ms: int, *, has_open: bool = False
    ) -> Mapping[TopicPartition, int]:
        """The first offsets at a time or later, FIRST_MS or LAST_MS; negative where there is
        none. Of read_committed the last is that of the oldest transaction that is open, unless
        it `has_open` ones."""
        ...

    def replaced(self, spans: Sequence[Span]) -> Collection[TopicPartition]:
        """Those of these spans with an `epoch` before which the log is not the one of that
        epoch any more."""
        ...

    def oldest_ms(self, spans: Sequence[Span]) -> int | None:
        """The least time of first records of these spans, which are not empty."""


def look_with(
    brokers: Brokers,
    source: DeclaredKafka,
    after: Position | None,
    *,
    asks_age: bool,
    compares: bool = False,
) -> KafkaOffsets:
    """The offsets of all partitions now; without `after`, those at which a table begins that has
    read nothing among them. Of partitions that wait it is asked whether the log before is the one
    that was read. Where it `asks_age`, the first record of each of them is read. Where it
    `compares`, it is asked where a table begins though this one has read something, and of all
    partitions whether the log before is the one that was read."""
    looked_ms = SystemClock().now_ms()
    topics = set(source.topics) or _matching(source, brokers, after)
    found = brokers.describe(topics) if topics else Described()
    partitions = found.led
    first = brokers.offsets(partitions, FIRST_MS)
    end = brokers.offsets(partitions, LAST_MS)
    start = first
    if source.start == LATEST:
        start = end
    elif (after is None or compares) and source.start != EARLIEST:
        timed = brokers.offsets(partitions, int(source.start))
        # None is behind all that is there.
        start = {item: timed[item] if timed[item] >= 0 else end[item] for item in partitions}
    looked = KafkaOffsets(
        found.ids,
        {item: PartitionOffsets(first[item], end[item], start[item]) for item in partitions},
        found.missing,
        source.records_max,
        source.on_data_loss,
        source.start == LATEST,
        bytes_max=source.bytes_max,
        commit_every_ms=source.commit_every_ms,
        looked_ms=looked_ms,
        engine=source.engine,
        spark_bytes_max=source.spark_bytes_max,
        leaderless=found.leaderless,
        begins_at_start=source.start == EARLIEST,
    )
    waiting = looked.waiting(after)
    known = [*waiting, *looked.read_to_end(after)] if compares else waiting
    known = [span for span in known if span.epoch is not None]
    if known:
        looked = replace(looked, replaced=frozenset(brokers.replaced(known)))
    asks_held = after is not None or not waiting
    held = _held(brokers, source, looked, waiting) if asks_held else []
    looked = replace(looked, held=tuple(held))
    # Where nothing else waits it is said since when these do.
    asks_age = asks_age or (bool(held) and not waiting)
    if not (waiting or held) or not asks_age:
        return looked
    return replace(looked, oldest_ms=brokers.oldest_ms([*waiting, *held]))


def _held(
    brokers: Brokers, source: DeclaredKafka, looked: KafkaOffsets, waiting: Sequence[Span]
) -> list[Span]:
    """Records that wait for transactions, of partitions where nothing else waits."""
    if source.isolation is not Isolation.READ_COMMITTED:
        return []
    read = set(looked.partitions) - {span.partition for span in waiting}
    ends = brokers.offsets(sorted(read), LAST_MS, has_open=True) if read else {}
    return [
        Span(item, looked.topic_ids[item.topic], looked.partitions[item].end, end)
        for item, end in sorted(ends.items())
        if end > looked.partitions[item].end
    ]


def _matching(source: DeclaredKafka, brokers: Brokers, after: Position | None) -> set[str]:
    """Topics that the pattern means, and those among them that were there before."""
    known = after.topic_ids if isinstance(after, KafkaPosition) else ()
    return {topic for topic in {*brokers.topic_names(), *known} if source.is_wanted(topic)}
