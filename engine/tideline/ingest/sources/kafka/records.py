"""Records of partitions by their offsets, and the range of those that one commit takes in.

Offsets have gaps: those of transaction markers, of aborted records and of what compaction removed.
So a range counts offsets, and has at most as many records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tideline.wording import counted

if TYPE_CHECKING:
    from confluent_kafka import Message


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


class Record(NamedTuple):
    """One record, as the client has it: what is not looked at is not taken out of it."""

    partition: TopicPartition
    message: Message

    @property
    def offset(self) -> int:
        return int(self.message.offset() or 0)

    @property
    def key(self) -> bytes | None:
        return self.message.key()

    @property
    def value(self) -> bytes | None:
        return self.message.value()

    @property
    def size_bytes(self) -> int:
        return len(self.value or b"") + len(self.key or b"")

    @property
    def timestamp_ms(self) -> int | None:
        """None where it has none."""
        kind, moment_ms = self.message.timestamp()
        return moment_ms if kind else None

    def headers(self) -> Iterator[tuple[str, bytes | None]]:
        """Names, which may repeat, with their values."""
        found = self.message.headers() or ()
        for name, value in found.items() if isinstance(found, dict) else found:
            yield name, value.encode() if isinstance(value, str) else value


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
    """Spans, each of another partition. Only reading shows their `size_bytes`."""

    spans: tuple[Span, ...] = ()
    size_bytes: int = 0

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
        return KafkaRange(tuple(span for span in self.spans if str(span.partition) in names))

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
            ]
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
            )
        )
