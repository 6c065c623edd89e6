"""Messages of a client as records of spans: which are wanted, and their places in the range."""

from __future__ import annotations

import pytest
from confluent_kafka import Message

from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.kafka.span_places import SpanPlaces


def message(topic: str, partition: int, offset: int, value: bytes | None = b"v") -> Message:
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=f"{topic}{partition}{offset}".encode(),
        value=value,
        headers=[("a", b"1")] if offset % 2 else None,
        timestamp=(1, offset * 10),
    )


@pytest.mark.parametrize("others", [("orders",), ("orders", "returns")], ids=str)
def test_records_behind_the_end_of_a_span_are_left_out(others: tuple[str, ...]) -> None:
    spans = tuple(
        Span(TopicPartition(topic, number), "id", 10 * number, 10 * number + 5)
        for topic in others
        for number in (3, 1)
    )
    shifts = KafkaRange(spans).shifts
    places = SpanPlaces.of(spans, shifts)
    given = [
        message(topic, number, 10 * number + at, None if at == 2 else f"{at}".encode())
        for at in (0, 2, 4, 5, 6)
        for topic in others
        for number in (1, 3)
    ]
    found = places.records(given, asks_time=True, asks_headers=True)
    wanted = [item for item in given if (item.offset() or 0) % 10 < 5]
    assert found.partitions == [
        TopicPartition(str(item.topic()), item.partition() or 0) for item in wanted
    ]
    assert found.offsets == [item.offset() for item in wanted]
    assert found.arrivals.tolist() == [
        offset + shifts[partition]
        for offset, partition in zip(found.offsets, found.partitions, strict=True)
    ]
    assert sorted(found.arrivals) == [
        5 * span + at for span in range(len(spans)) for at in (0, 2, 4)
    ]
    assert found.keys == [item.key() for item in wanted]
    assert found.values == [item.value() for item in wanted]
    assert found.times_ms == [10 * offset for offset in found.offsets]
    assert found.headers == [(("a", b"1"),) if offset % 2 else () for offset in found.offsets]


def test_columns_that_nobody_asks_for_are_empty_and_no_message_is_no_record() -> None:
    span = Span(TopicPartition("orders", 0), "id", 0, 5)
    places = SpanPlaces.of((span,), {span.partition: 0})
    found = places.records([message("orders", 0, 1)], asks_time=False, asks_headers=False)
    assert (len(found), found.times_ms, found.headers) == (1, [], [])
    assert not len(places.records([], asks_time=True, asks_headers=True))
