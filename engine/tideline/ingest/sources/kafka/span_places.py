"""What a client hands out, as columns: the records of some spans, and their places in a range.

A loop over messages costs more than fetching them, so that each column is made at once, and offsets
are compared as numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tideline.ingest.sources.kafka.records import (
    Records,
    Span,
    TopicPartition,
    headers_of,
    time_ms_of,
)

if TYPE_CHECKING:
    from confluent_kafka import Message

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SpanPlaces:
    """Spans by number: `numbers` has those of partitions, by topic as well where there are several
    topics. `ends` are where they end, `shifts` what makes places in a range of their offsets."""

    partitions: tuple[TopicPartition, ...]
    ends: _Numbers
    shifts: _Numbers
    numbers: Mapping[Any, int]
    has_topics: bool

    @classmethod
    def of(cls, spans: Sequence[Span], shifts: Mapping[TopicPartition, int]) -> SpanPlaces:
        has_topics = len({span.partition.topic for span in spans}) > 1
        named = [(span.partition.topic, span.partition.number) for span in spans]
        return cls(
            tuple(span.partition for span in spans),
            np.array([span.end for span in spans], np.int64),
            np.array([shifts[span.partition] for span in spans], np.int64),
            {name if has_topics else name[1]: number for number, name in enumerate(named)},
            has_topics,
        )

    def records(
        self, messages: Sequence[Message], *, asks_time: bool, asks_headers: bool
    ) -> Records:
        """Those of these messages that lie before the ends of their spans."""
        of = self._numbers(messages)
        offsets: _Numbers = np.array([message.offset() for message in messages], np.int64)
        is_wanted = offsets < self.ends[of]
        if not is_wanted.all():
            messages = [messages[place] for place in np.flatnonzero(is_wanted).tolist()]
            of, offsets = of[is_wanted], offsets[is_wanted]
        partitions = self.partitions
        return Records(
            [partitions[number] for number in of.tolist()],
            offsets.tolist(),
            array("q", (offsets + self.shifts[of]).tobytes()),
            [message.key() for message in messages],
            [message.value() for message in messages],
            list(map(time_ms_of, messages)) if asks_time else [],
            list(map(headers_of, messages)) if asks_headers else [],
        )

    def _numbers(self, messages: Sequence[Message]) -> _Numbers:
        numbers = self.numbers
        if self.has_topics:
            found = [numbers[message.topic(), message.partition()] for message in messages]
        else:
            found = [numbers[message.partition()] for message in messages]
        return np.array(found, np.int64)
