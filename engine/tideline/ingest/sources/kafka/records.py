"""Records of partitions by their offsets, and the range of those that one commit takes in.

Offsets have gaps: those of transaction markers, of aborted records and of what compaction removed.
So a range counts offsets, and has at most as many records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tideline.wording import counted

if TYPE_CHECKING:
    from confluent_kafka import Message

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """`orders/3`: a partition as ranges and messages name it."""

    topic: str
    number: int

    @classmethod
    def parse(cls, text: str) -> TopicPartition:
        topic, _, number = text.rpartition("/")
        return cls(topic, int(number))

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


@dataclass(frozen=True, slots=True)
class Records:
    """Records in the order of each partition, as columns. An object of the client for each would
    be looked at by every garbage collection."""

    partitions: list[TopicPartition] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    times_ms: list[int | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    """These two are empty where no column is of them."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, filter(None, self.values))) + sum(map(len, filter(None, self.keys)))

    def extend(self, later: Records) -> None:
        self.partitions.extend(later.partitions)
        self.offsets.extend(later.offsets)
        self.keys.extend(later.keys)
        self.values.extend(later.values)
        self.times_ms.extend(later.times_ms)
        self.headers.extend(later.headers)


def headers_of(message: Message) -> Headers:
    """Names, which may repeat, with their values."""
    found = message.headers() or ()
    return tuple(
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in (found.items() if isinstance(found, dict) else found)
    )


def time_ms_of(message: Message) -> int | None:
    """None where it has none."""
    kind, moment_ms = message.timestamp()
    return moment_ms if kind else None


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets from `first` to before `end` of a partition of the topic with this id. `skipped`
    are offsets before them that were gone, and may be."""

    partition: TopicPartition
    topic_id: str
    first: int
    end: int
    skipped: int = 0

    @property
    def length(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class KafkaRange:
    """Spans, each of another partition. Only reading shows their `size_bytes`. Where it
    `begins_again` what was read before counts no more."""

    spans: tuple[Span, ...] = ()
    size_bytes: int = 0
    begins_again: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(span.partition) for span in self.spans)

    @property
    def start(self) -> str:
        """Every look is whole."""
        return ""

    @property
    def length(self) -> int:
        """Offsets, gaps among them."""
        return sum(span.length for span in self.spans)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{counted(span.skipped, 'offset')} of {span.partition} before {span.first:,} were gone"
            " and are skipped"
            for span in self.spans
            if span.skipped
        )

    def only(self, names: Collection[str]) -> KafkaRange:
        return replace(
            self, spans=tuple(span for span in self.spans if str(span.partition) in names)
        )

    def limited(self, bytes_max: int) -> KafkaRange:  # noqa: ARG002
        """The whole range: `maxRecordsPerCommit` limits it."""
        return self

    def span(self, name: str) -> Span:
        """That of the partition of this name."""
        return next(span for span in self.spans if str(span.partition) == name)

    def stored(self) -> dict[str, Any]:
        return {
            "spans": [
                [
                    *(span.partition.topic, span.partition.number, span.topic_id),
                    *(span.first, span.end, span.skipped),
                ]
                for span in self.spans
            ],
            **({"beginsAgain": True} if self.begins_again else {}),
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> KafkaRange:
        return cls(
            tuple(
                Span(
                    TopicPartition(str(topic), int(number)),
                    str(topic_id),
                    *(int(first), int(end), int(skipped)),
                )
                for topic, number, topic_id, first, end, skipped in content["spans"]
            ),
            begins_again=bool(content.get("beginsAgain", False)),
        )
