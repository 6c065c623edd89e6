"""The records of topics that a table has read, as far as the topics still have them."""

from __future__ import annotations

from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.offsets import KafkaOffsets, describe_leaderless
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.replay import History, Replay, ReplayRange
from tideline.ingest.sources.source import Available, Declared, Lost, Position
from tideline.wording import counted

RECORDS_MAX = 50_000
"""Offsets of one range."""
_BYTES_MAX = 64 * 1024 * 1024
_NO_MORE = "what the table has read of it cannot be read again"


def replay_topics(
    declared: Declared, available: Available, until: Position, history: History
) -> Replay | Lost:
    """Ranges from the first offsets that the table may have read to before its next ones."""
    assert isinstance(declared, DeclaredKafka)
    assert isinstance(available, KafkaOffsets)
    assert isinstance(until, KafkaPosition)
    first = _first(history) if available.begins_at_end else None
    if available.begins_at_end and first is None:
        return Lost(
            "the table began at the end of its topics", "where that was is not known any more"
        )
    ranges: list[ReplayRange] = []
    gone: list[str] = []
    rows = 0
    affordable = _BYTES_MAX // until.offset_bytes if until.offset_bytes else RECORDS_MAX
    length = max(1, min(RECORDS_MAX, affordable))
    for partition, end in sorted(until.next.items()):
        lost = _lost(available, until, partition, end)
        if lost is not None:
            return lost
        found = available.partitions[partition]
        begin = min(_begin(available, partition, first), end)
        if found.first > 0 and begin <= found.first:
            gone.append(f"{counted(found.first, 'offset')} of {partition} before {found.first:,}")
            begin = min(found.first, end)
        topic_id = until.topic_ids[partition.topic]
        rows += max(0, end - begin)
        for at in range(begin, end, length):
            span = Span(partition, topic_id, at, min(at + length, end))
            ranges.append(ReplayRange(KafkaRange((span,), schemas=until.schemas)))

    def keeps_after(position: Position) -> bool:
        assert isinstance(position, KafkaPosition)
        return all(available.partitions[item].first <= position.next.get(item, 0)
                   for item in until.next)  # fmt: skip

    return Replay(tuple(ranges), tuple(gone), keeps_after, rows)


def _first(history: History) -> Position | None:
    """The position of the ingest's first commit; None where that is not known."""
    first = None
    for taken in history():
        first = taken
    return first.position if first is not None and first.generation == 1 else None


def _begin(available: KafkaOffsets, partition: TopicPartition, first: Position | None) -> int:
    """The first offset that the table may have read."""
    found = available.partitions[partition]
    if not available.begins_at_end:
        return found.start
    # One that was added since is read from its first offset.
    assert isinstance(first, KafkaPosition)
    return first.next.get(partition, found.first)


def _lost(
    available: KafkaOffsets, until: KafkaPosition, partition: TopicPartition, end: int
) -> Lost | None:
    """Why the records of a partition are not those that the table has read."""
    topic = partition.topic
    if topic in available.missing:
        return Lost(f"there is no topic {topic} any more", _NO_MORE)
    if topic not in available.topic_ids:
        return Lost(f"the table has read topic {topic}, which is not declared any more", _NO_MORE)
    if available.topic_ids[topic] != until.topic_ids[topic]:
        return Lost(f"topic {topic} was deleted and created again", _NO_MORE)
    found = available.partitions.get(partition)
    if partition in available.leaderless:
        return Lost(describe_leaderless([partition]), "compare the table then")
    if found is None:
        return Lost(f"there is no partition {partition} any more", _NO_MORE)
    if end > found.end:
        what = f"{partition} ends at offset {found.end:,}, the table has read to {end:,}"
        return Lost(f"{what}: the brokers lost records", _NO_MORE)
    if partition in available.replaced:
        what = f"{partition} has other records before offset {end:,} than the table has read"
        return Lost(f"{what}: the brokers lost records", _NO_MORE)
    return None
