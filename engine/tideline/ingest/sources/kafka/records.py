"""Records of partitions by their offsets, and the range of those that one commit takes in.

Offsets have gaps: those of transaction markers, of aborted records and of what compaction removed.
So a range counts offsets, and has at most as many records.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from tideline.ingest.sources.kafka.known_schemas import KnownSchemas
from tideline.wording import counted

if TYPE_CHECKING:
    from confluent_kafka import Message

_TIME_MS_MAX = (1 << 63) // 1000 - 1
"""Columns have microseconds."""
_CALL_HEADERS = methodcaller("headers")
"""Where a name is no text the client returns a value and sets an error as well: a call from Python
does not look at both, and the error comes up in whatever runs next."""
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
    be looked at by every garbage collection. `arrivals` are their places in the range: by
    partition, then by offset."""

    partitions: list[TopicPartition] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    arrivals: array[int] = field(default_factory=lambda: array("q"))
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    times_ms: list[int | None] = field(default_factory=list)
    headers: list[Headers | None] = field(default_factory=list)
    """These two are empty where no column is of them. Headers that cannot be read are None."""

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, filter(None, self.values))) + sum(map(len, filter(None, self.keys)))

    def extend(self, later: Records) -> None:
        self.partitions.extend(later.partitions)
        self.offsets.extend(later.offsets)
        self.arrivals.extend(later.arrivals)
        self.keys.extend(later.keys)
        self.values.extend(later.values)
        self.times_ms.extend(later.times_ms)
        self.headers.extend(later.headers)

    def divided(self, length_max: int) -> Iterator[Records]:
        """The same, at most so many at a time."""
        for first in range(0, len(self), length_max):
            these = slice(first, first + length_max)
            yield Records(
                *(self.partitions[these], self.offsets[these], self.arrivals[these]),
                *(self.keys[these], self.values[these]),
                *(self.times_ms[these], self.headers[these]),
            )


def headers_of(message: Message) -> Headers | None:
    """Names, which may repeat, with their values. None where a name is no text: clients in C write
    any bytes."""
    try:
        found = _CALL_HEADERS(message) or ()
    except SystemError:
        return None
    return tuple(
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in (found.items() if isinstance(found, dict) else found)
    )


def time_ms_of(message: Message) -> int | None:
    """None where it has none, or one that no column has."""
    kind, moment_ms = message.timestamp()
    return moment_ms if kind and 0 <= moment_ms <= _TIME_MS_MAX else None


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets from `first` to before `end` of a partition of the topic with this id. `skipped`
    are offsets before them that were gone, and may be. `epoch` is that of the leader that wrote
    what was read before, `end_epoch` that of the last record, once it was read; None where nobody
    has noted it."""

    partition: TopicPartition
    topic_id: str
    first: int
    end: int
    skipped: int = 0
    epoch: int | None = None
    end_epoch: int | None = None

    @property
    def length(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class KafkaRange:
    """Spans, each of another partition. Their `size_bytes` are estimated for a range that is read
    `on_spark`; of others only reading shows them. Where it `begins_again` what was read before
    counts no more. Its `schemas` are those by which records before it were read; once it was read,
    its own."""

    spans: tuple[Span, ...] = ()
    size_bytes: int = 0
    on_spark: bool = False
    begins_again: bool = False
    schemas: KnownSchemas = field(default_factory=KnownSchemas)

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

    @property
    def shifts(self) -> dict[TopicPartition, int]:
        """What makes places in the range of the offsets of each partition."""
        found, before = {}, 0
        for span in self.spans:
            found[span.partition] = before - span.first
            before += span.length
        return found

    def only(self, names: Collection[str]) -> KafkaRange:
        kept = tuple(span for span in self.spans if str(span.partition) in names)
        return replace(self, spans=kept)

    def limited(self, bytes_max: int) -> KafkaRange:  # noqa: ARG002
        """The whole range: `maxRecordsPerCommit` limits it."""
        return self

    def ended_in(self, epochs: Mapping[TopicPartition, int]) -> KafkaRange:
        """The same once it was read: its last records are of these epochs."""
        spans = (replace(span, end_epoch=epochs.get(span.partition)) for span in self.spans)
        return replace(self, spans=tuple(spans))

    def span(self, name: str) -> Span:
        """That of the partition of this name."""
        return next(span for span in self.spans if str(span.partition) == name)

    def divided(self, length_max: int) -> tuple[Span, ...]:
        """The same offsets in spans that have at most so many. What was read before the first of
        a partition was not read before the others."""
        return tuple(
            replace(
                span,
                first=first,
                end=min(first + length_max, span.end),
                epoch=span.epoch if first == span.first else None,
            )
            for span in self.spans
            for first in range(span.first, span.end, length_max)
        )

    def stored(self) -> dict[str, Any]:
        spans = [
            [
                *(span.partition.topic, span.partition.number, span.topic_id),
                *(span.first, span.end, span.skipped),
            ]
            for span in self.spans
        ]
        large = {"onSpark": True, "sizeBytes": self.size_bytes} if self.on_spark else {}
        again = {"beginsAgain": True} if self.begins_again else {}
        epochs = [span.epoch for span in self.spans]
        known = {"epochs": epochs} if any(epoch is not None for epoch in epochs) else {}
        return {"spans": spans, **large, **again, **known, **self.schemas.stored()}

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> KafkaRange:
        epochs = content.get("epochs") or [None] * len(content["spans"])
        spans = tuple(
            Span(
                TopicPartition(str(topic), int(number)),
                str(topic_id),
                *(int(first), int(end), int(skipped)),
                epoch=None if epoch is None else int(epoch),
            )
            for (topic, number, topic_id, first, end, skipped), epoch in zip(
                content["spans"], epochs, strict=True
            )
        )
        return cls(
            spans,
            size_bytes=int(content.get("sizeBytes", 0)),
            on_spark=bool(content.get("onSpark", False)),
            begins_again=bool(content.get("beginsAgain", False)),
            schemas=KnownSchemas.from_stored(content),
        )
