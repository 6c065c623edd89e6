"""Of what time the first records are behind offsets, without reading them.

Records come in batches, whose head has the time of the first: as many bytes are fetched as a head
has, and no more are looked at. Of a batch in whose middle an offset is, the time is a little too
early.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tideline.ingest.sources.kafka.records import TopicPartition
from tideline.ingest.sources.kafka.wire.connection import BrokerConnection
from tideline.ingest.sources.kafka.wire.fields import Fields, int8, int32, int64, text
from tideline.ingest.sources.wire.field_reader import WireError

_FETCH = 1
_OF_A_PARTITION, _OF_ALL = 128, 1 << 20
"""Bytes; of the first partition that has any the whole batch comes anyway."""
_MAGIC = 2
_APPEND_TIME, _CONTROL = 1 << 3, 1 << 5


def ask_for_times(broker: BrokerConnection, firsts: Mapping[TopicPartition, int]) -> list[int]:
    """The times of the batches at these offsets, of those that come at once."""
    by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, first in firsts.items():
        by_topic[partition.topic].append((partition.number, first))
    # Replica, wait, least bytes, most bytes, read_uncommitted: open batches have a time as well.
    body = int32(-1) + int32(0) + int32(0) + int32(_OF_ALL) + int8(0) + int32(len(by_topic))
    for topic, wanted in by_topic.items():
        body += text(topic) + int32(len(wanted))
        for number, first in wanted:
            body += int32(number) + int64(first) + int32(_OF_A_PARTITION)
    answer = broker.ask(_FETCH, 4, body)
    answer.int32()
    found: list[int] = []

    def partition_of() -> None:
        answer.int32()
        code = answer.int16()
        answer.take(16)
        answer.items(lambda: answer.take(16))
        head = answer.sized()
        time_ms = None if code else _time_of(head)
        if time_ms is not None:
            found.append(time_ms)

    def topic_of() -> None:
        answer.text()
        answer.items(partition_of)

    answer.items(topic_of)
    return found


def _time_of(batch: bytes) -> int | None:
    """None where it has none, is of an old format, or has no records of users."""
    head = Fields(batch)
    try:
        head.take(8 + 4 + 4)
        if head.int8() != _MAGIC:
            return None
        head.take(4)
        attributes = head.int16()
        head.take(4)
        first_ms, last_ms = head.int64(), head.int64()
    except WireError:
        return None
    time_ms = last_ms if attributes & _APPEND_TIME else first_ms
    return None if attributes & _CONTROL or time_ms < 0 else time_ms
