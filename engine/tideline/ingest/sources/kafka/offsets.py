"""What one look at topics found, and which offsets come next. Values in, values out.

1. A partition continues at the position's offset. One without begins where `start` says, but at its
   first offset where the table has a position: then it was added to the topic since.
2. A topic that is not there yet is waited for. What cannot be continued is named, and what to do:
   nothing is guessed and nothing passed over, unless `on_data_loss` says that offsets that are gone
   may be.
3. A table that begins at the end has a first commit without rows: it holds where the end was. Until
   then nothing is in the table that could say so, and after it no record is passed over.
   A partition without a leader, whose brokers are down, is left out until it has one again; the
   others are read. Where a table does not begin at the start all have to be there.
4. A range is fixed before it is read, by offsets: an attempt that died is repeated exactly. So its
   bytes are bounded by what an offset had in the commit before; of the first one nothing is known.
5. What is less than a range may have waits where commits have a least interval.
   What waits may be read on Spark where it is more than a process takes: its range is bounded by
   other bytes, and knows that it is.
6. A range takes the same number of offsets from each partition as long as they have that many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum

from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.read_engine import LARGE_BYTES, SPARK_BYTES_MAX, ReadEngine
from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.source import (
    Backlog,
    HeldUp,
    Limits,
    Lost,
    Nothing,
    Position,
    Range,
    SetAside,
)
from tideline.wording import counted

_RECORDS_UNKNOWN_MAX = 1_000
"""In a range that is bounded by bytes, as long as nothing is known of them."""
_TIME, _TIME_MS_MAX = "%Y-%m-%d %H:%M:%S UTC", 253_402_300_800_000
_SHOWN = 3
"""How many partitions a sentence names."""
_RESTART = "read it from its start with tideline resync, or a higher number in spec.resync"


class OnDataLoss(Enum):
    """What happens where offsets between the position and the first one left are gone."""

    FAIL = "Fail"
    SKIP = "Skip"


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The first offset that a partition has, the first one behind what may be read, and the one at
    which an ingest without a position begins."""

    first: int
    end: int
    start: int


@dataclass(frozen=True, slots=True)
class KafkaOffsets:
    """One look. `topic_ids` has the topics that are there, `missing` those that are not.

    Where a table `begins_at_end`, its first range has no records. `oldest_ms` is the time of the
    oldest record behind the position that the look was for, None where it was not asked for.
    `bytes_max` and `commit_every_ms` are 0 where there is no such bound. What the `engine` has
    Spark read has about `spark_bytes_max` bytes. Partitions that are `replaced` have other records
    before the position that the look was for than those that were read. Records that are `held`
    wait for transactions that are open. Nothing is known of partitions that are `leaderless`.
    """

    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionOffsets] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    records_max: int = 1
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    begins_at_end: bool = False
    oldest_ms: int | None = None
    bytes_max: int = 0
    commit_every_ms: int = 0
    looked_ms: int = 0
    engine: ReadEngine = ReadEngine.IN_PROCESS
    spark_bytes_max: int = SPARK_BYTES_MAX
    replaced: frozenset[TopicPartition] = frozenset()
    held: tuple[Span, ...] = ()
    leaderless: tuple[TopicPartition, ...] = ()
    begins_at_start: bool = True

    @property
    def is_whole(self) -> bool:
        return True

    @property
    def exists(self) -> bool:
        return bool(self.topic_ids) and not self.missing

    @property
    def set_aside(self) -> SetAside:
        return SetAside()

    @property
    def retained(self) -> None:
        return None

    def at_once(self) -> KafkaOffsets:
        return replace(self, commit_every_ms=0)

    def plan(self, after: Position | None, limits: Limits) -> Range | Nothing | Lost:
        known = _known(after)
        lost = self._lost(known)
        if lost is not None:
            return lost
        if known is None and self.leaderless and not self.begins_at_start:
            return Nothing()
        if known is None and self.begins_at_end and self.partitions:
            return self._nothing_from({item: found.end for item, found in self.partitions.items()})
        waiting = self._waiting(known)
        if not waiting:
            return Nothing()
        on_spark = self._is_for_spark(known, waiting)
        records_max = self._records_max(known, on_spark)
        due_ms = self._due_ms(known, limits.now_ms)
        if due_ms is not None and sum(span.length for span in waiting) < records_max:
            return Nothing(due_ms, "more records are waited for", may_be_earlier=True)
        lengths = shares({span.partition: span.length for span in waiting}, records_max)
        spans = tuple(
            replace(span, end=span.first + lengths[span.partition])
            for span in waiting
            if lengths[span.partition]
        )
        if known is None and not self.begins_at_start:
            spans = self._with_beginnings(spans)
        taken = KafkaRange(spans) if known is None else KafkaRange(spans, schemas=known.schemas)
        if not on_spark:
            return taken
        size_bytes = sum(lengths.values()) * _offset_bytes(known)
        return replace(taken, size_bytes=size_bytes, on_spark=True)

    def plan_again(self, after: Position, *, inserts: bool) -> KafkaRange | Lost:
        if not self.partitions and not self.leaderless:
            return Lost("there are no topics", "create them, or name the right ones")
        if self.leaderless and (self.begins_at_end or not self.partitions):
            return Lost(describe_leaderless(self.leaderless), "it begins once they have one")
        if inserts and self.was_read_to(after):
            return Lost(
                "the operation inserts, so that records which are in the table would come twice",
                "read them into a new table",
            )
        begin = self._nothing_from({item: found.start for item, found in self.partitions.items()})
        return replace(begin, begins_again=True)

    def backlog(self, after: Position | None, limits: Limits) -> Backlog:  # noqa: ARG002
        """Partitions with something to read, and offsets, which are a few more than records, those
        that are held among them."""
        waiting = self._waiting(_known(after))
        records = sum(span.length for span in (*waiting, *self.held))
        oldest_ms = self.oldest_ms if records else None
        return Backlog(parts=len(waiting), records=records, oldest_ms=oldest_ms)

    def waiting(self, after: Position | None) -> list[Span]:
        """What of each partition is behind the position."""
        return self._waiting(_known(after))

    def read_to_end(self, after: Position | None) -> list[Span]:
        """Nothing of each partition that has nothing behind the position."""
        known = _known(after)
        if known is None:
            return []
        ends = ((item, known.next.get(item)) for item in sorted(self.partitions))
        return [
            Span(item, self.topic_ids[item.topic], end, end, epoch=known.epochs.get(item))
            for item, end in ends
            if end is not None and end >= self.partitions[item].end
        ]

    def still_there(self, planned: Range, after: Position | None) -> KafkaRange:
        taken = kafka_range_of(planned)
        known = None if taken.begins_again else _known(after)
        # What begins again has read nothing of the log that is another one now.
        replaced: frozenset[TopicPartition] = frozenset() if taken.begins_again else self.replaced
        there = tuple(
            span
            for span in taken.spans
            if span.partition not in replaced and self._is_there(span, known)
        )
        return replace(taken, spans=there)

    def advance(self, after: Position | None, taken: Range) -> KafkaPosition:
        found = kafka_range_of(taken)
        known = None if found.begins_again else _known(after)
        return (known or KafkaPosition({}, {})).behind(found, self.looked_ms)

    def look_after(self, position: Position) -> str:  # noqa: ARG002
        return ""

    def is_drained(self, position: Position) -> bool:
        return not self._waiting(_known(position))

    def was_read_to(self, position: Position) -> bool:
        known = _known(position)
        return known is not None and bool(
            set(known.topic_ids.values()) & set(self.topic_ids.values())
        )

    def held_up(self, since_before_ms: int | None = None) -> tuple[HeldUp, ...]:
        found: list[HeldUp] = []
        if self.leaderless:
            found.append(HeldUp(describe_leaderless(self.leaderless), is_fault=True))
        is_old = since_before_ms is None or (
            self.oldest_ms is not None and self.oldest_ms <= since_before_ms
        )
        if self.held and is_old:
            counts = since_before_ms is None
            found.append(HeldUp(_describe_open(self.held, self.oldest_ms, counts=counts)))
        return tuple(found)

    def describe_others(self) -> str | None:
        return None

    def _is_for_spark(self, known: KafkaPosition | None, waiting: Sequence[Span]) -> bool:
        """Whether Spark reads the next range. The first one, whose bytes nobody knows, is small."""
        offset_bytes = _offset_bytes(known)
        if not offset_bytes or self.engine is ReadEngine.IN_PROCESS:
            return False
        size_bytes = sum(span.length for span in waiting) * offset_bytes
        return self.engine is ReadEngine.SPARK or size_bytes > LARGE_BYTES

    def _records_max(self, known: KafkaPosition | None, on_spark: bool) -> int:
        """How many offsets one range may have."""
        offset_bytes = _offset_bytes(known)
        if on_spark:
            return max(1, self.spark_bytes_max // offset_bytes)
        if not self.bytes_max:
            return self.records_max
        affordable = self.bytes_max // offset_bytes if offset_bytes else _RECORDS_UNKNOWN_MAX
        return max(1, min(self.records_max, affordable))

    def _due_ms(self, known: KafkaPosition | None, now_ms: int) -> int | None:
        """When the next commit is due whatever it has; None for now. A clock that was ahead is no
        reason to wait for it."""
        if known is None or not self.commit_every_ms or known.looked_ms > now_ms:
            return None
        due_ms = known.looked_ms + self.commit_every_ms
        return due_ms if due_ms > now_ms else None

    def _with_beginnings(self, spans: tuple[Span, ...]) -> tuple[Span, ...]:
        """With no record of each other partition, so that the position has where it begins."""
        read = {span.partition for span in spans}
        begin = self._nothing_from(
            {item: found.start for item, found in self.partitions.items() if item not in read}
        )
        return tuple(sorted((*spans, *begin.spans), key=lambda span: span.partition))

    def _nothing_from(self, offsets: Mapping[TopicPartition, int]) -> KafkaRange:
        """No record of each partition, from an offset on."""
        return KafkaRange(
            tuple(
                Span(partition, self.topic_ids[partition.topic], offset, offset)
                for partition, offset in sorted(offsets.items())
            )
        )

    def _waiting(self, known: KafkaPosition | None) -> list[Span]:
        """What of each partition is behind the position, whatever its length."""
        spans = []
        for partition, found in sorted(self.partitions.items()):
            wanted = found.start if known is None else known.next.get(partition, found.first)
            first = max(wanted, found.first)
            if first < found.end:
                topic_id = self.topic_ids[partition.topic]
                skipped = first - wanted if known is not None else 0
                epoch = known.epochs.get(partition) if known and first == wanted else None
                spans.append(Span(partition, topic_id, first, found.end, skipped, epoch))
        return spans

    def _is_there(self, span: Span, known: KafkaPosition | None) -> bool:
        found = self.partitions.get(span.partition)
        return (
            found is not None
            and self.topic_ids[span.partition.topic] == span.topic_id
            and found.first <= span.first
            and span.end <= found.end
            and (known is None or known.next.get(span.partition, span.first) <= span.first)
        )

    def _lost(self, known: KafkaPosition | None) -> Lost | None:
        if known is None:
            return None
        gone = [topic for topic in self.missing if topic in known.topic_ids]
        if gone:
            return Lost(f"there is no topic {', '.join(gone)} any more", _RESTART)
        for topic, topic_id in self.topic_ids.items():
            if known.topic_ids.get(topic, topic_id) != topic_id:
                return Lost(f"topic {topic} was deleted and created again", _RESTART)
        for partition, offset in sorted(known.next.items()):
            lost = self._lost_of(partition, offset)
            if lost is not None:
                return lost
        return None

    def _lost_of(self, partition: TopicPartition, offset: int) -> Lost | None:
        if partition.topic not in self.topic_ids:
            # The spec names it no more.
            return None
        found = self.partitions.get(partition)
        if partition in self.leaderless:
            return None
        if found is None:
            return Lost(f"there is no partition {partition} any more", _RESTART)
        if offset > found.end:
            what = f"{partition} ends at offset {found.end:,}, the table has read to {offset:,}"
            return Lost(f"{what}: the brokers lost records", _RESTART)
        if partition in self.replaced:
            return Lost(
                f"{partition} has other records before offset {offset:,} than the table has read: "
                "the brokers lost some, and have written others in their place (a leader that was "
                "not in sync, or a disk that was restored)",
                _RESTART,
            )
        if offset < found.first and self.on_data_loss is OnDataLoss.FAIL:
            gone = counted(found.first - offset, "offset")
            return Lost(
                f"{gone} of {partition} from {offset:,} are gone: the topic's retention was faster",
                "continue at what is left with source.onDataLoss: Skip",
            )
        return None


def shares(waiting: Mapping[TopicPartition, int], total: int) -> dict[TopicPartition, int]:
    """How many of `total` each gets: equal numbers, as far as they have that many; the first ones
    get what cannot be divided."""
    given = dict.fromkeys(waiting, 0)
    left, hungry = total, sorted(waiting)
    while left and hungry:
        share = max(1, left // len(hungry))
        for partition in hungry:
            more = min(share, waiting[partition] - given[partition], left)
            given[partition] += more
            left -= more
        hungry = [partition for partition in hungry if given[partition] < waiting[partition]]
    return given


def describe_leaderless(partitions: Sequence[TopicPartition]) -> str:
    """What nobody leads, and what to do."""
    names = [str(partition) for partition in partitions[:_SHOWN]]
    more = len(partitions) - _SHOWN
    if more > 0:
        names.append(counted(more, "more partition"))
    if len(partitions) == 1:
        return f"{names[0]} has no leader, and is not read: start the brokers that have it"
    return f"{', '.join(names)} have no leader, and are not read: start the brokers that have them"


def _describe_open(held: Sequence[Span], oldest_ms: int | None, *, counts: bool) -> str:
    what = counted(sum(span.length for span in held), "offset") if counts else "records"
    places = [f"{span.partition} from {span.first:,} on" for span in held[:_SHOWN]]
    places += [counted(len(held) - _SHOWN, "more partition")] if len(held) > _SHOWN else []
    since = ""
    if oldest_ms is not None and 0 <= oldest_ms < _TIME_MS_MAX:
        since = f"; the oldest is of {datetime.fromtimestamp(oldest_ms / 1000, UTC):{_TIME}}"
    return (
        f"{what} of {', '.join(places)} wait for a transaction that is open{since}: where nobody "
        "ends it, find it with kafka-transactions.sh find-hanging, and abort it"
    )


def kafka_range_of(planned: Range) -> KafkaRange:
    """A range of another kind is a mistake of the caller."""
    assert isinstance(planned, KafkaRange)
    return planned


def _offset_bytes(known: KafkaPosition | None) -> int:
    """What an offset had in the commit before, 0 where that is not known."""
    return 0 if known is None else known.offset_bytes


def _known(after: Position | None) -> KafkaPosition | None:
    return after if isinstance(after, KafkaPosition) else None
