"""How far Hudi's streamer has read a topic, as commits of the table say it.

The text is the topic and the next offset of each partition: `orders,0:120,1:97`. Tables of version
8 and later have it under another key than earlier ones (`PropertyRules.streamer_checkpoint`).

Source: Hudi's StreamerCheckpointV1, StreamerCheckpointV2, CheckpointUtils, KafkaOffsetGen.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import CorruptTableError
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import TopicPartition
from tideline.ingest.sources.source import Declared, Position

_KEY_OF_6, _KEY_OF_8 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"


def position_of_streamer(
    source: Declared, extra_metadata: Mapping[str, str]
) -> KafkaPosition | None:
    """The position that a commit of the streamer says; None where it says none, or one of another
    source. The ids of topics are not in it. Raises CorruptTableError."""
    text = extra_metadata.get(_KEY_OF_8) or extra_metadata.get(_KEY_OF_6) or ""
    topic, *parts = text.split(",")
    assert isinstance(source, DeclaredKafka)
    if not parts or not source.is_wanted(topic):
        return None
    try:
        pairs = [part.split(":") for part in parts]
        offsets = {TopicPartition(topic, int(number)): int(offset) for number, offset in pairs}
    except ValueError as error:
        message = "the checkpoint of Hudi's streamer cannot be read"
        raise CorruptTableError(message, value=text[:200]) from error
    return KafkaPosition({}, offsets)


def metadata_for_streamer(source: Declared, position: Position, key: str) -> dict[str, str]:
    """The position as the streamer reads it from a commit under this key, to continue there. Empty
    where that is not wanted, and for several topics: it has none of those."""
    assert isinstance(source, DeclaredKafka) and isinstance(position, KafkaPosition)
    topics = {partition.topic for partition in position.next}
    if not source.writes_streamer_checkpoint:
        return {}
    if len(topics) != 1:
        return {}
    (topic,) = topics
    offsets = sorted(position.next.items())
    text = ",".join([topic, *(f"{partition.number}:{offset}" for partition, offset in offsets)])
    return {key: text}
