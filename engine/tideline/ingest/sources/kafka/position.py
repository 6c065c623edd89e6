"""How far a table has read topics: the next offset of each partition, and the topic's id.

A topic that is deleted and created again keeps its name and gets another id: an offset of the one
means nothing in the other. Each leader of a partition has an epoch, and each record that of the
leader that wrote it: where a leader takes over that does not have all records, the log before an
offset is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.ingest.sources.kafka.known_schemas import KnownSchemas
from tideline.ingest.sources.kafka.records import KafkaRange, TopicPartition

KIND = "kafka"


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """`topic_ids` by topic, `next` offsets by partition. The commit before it took in
    `offset_bytes` for each offset, and looked at the topics at `looked_ms`; 0 is not known. The
    records before `next` end in `epochs`, and were read by `schemas`, as far as these are known."""

    topic_ids: Mapping[str, str]
    next: Mapping[TopicPartition, int]
    offset_bytes: int = 0
    looked_ms: int = 0
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    schemas: KnownSchemas = field(default_factory=KnownSchemas)

    @property
    def kind(self) -> str:
        return KIND

    @property
    def needs_whole_look(self) -> bool:
        return False

    def behind(self, taken: KafkaRange, looked_ms: int = 0) -> KafkaPosition:
        """The position once `taken` is in the table."""
        ids = {span.partition.topic: span.topic_id for span in taken.spans}
        ends = {span.partition: span.end for span in taken.spans}
        offset_bytes = self.offset_bytes
        if taken.size_bytes and taken.length:
            offset_bytes = -(-taken.size_bytes // taken.length)
        # An epoch of before says nothing of what was read since.
        epochs = {item: epoch for item, epoch in self.epochs.items() if item not in ends}
        for span in taken.spans:
            epoch = span.end_epoch if span.length else self.epochs.get(span.partition)
            if epoch is not None:
                epochs[span.partition] = epoch
        return KafkaPosition(
            {**self.topic_ids, **ids},
            {**self.next, **ends},
            offset_bytes,
            looked_ms,
            epochs,
            self.schemas.with_used(taken.schemas),
        )

    def __str__(self) -> str:
        return ", ".join(f"{partition}@{offset}" for partition, offset in sorted(self.next.items()))

    def stored(self) -> dict[str, Any]:
        topics: dict[str, dict[str, Any]] = {
            topic: {"id": topic_id, "next": {}} for topic, topic_id in self.topic_ids.items()
        }
        for partition, offset in sorted(self.next.items()):
            topics[partition.topic]["next"][str(partition.number)] = offset
        for partition, epoch in sorted(self.epochs.items()):
            epochs = topics[partition.topic].setdefault("epochs", {})
            epochs[str(partition.number)] = epoch
        return {
            "topics": topics,
            "offsetBytes": self.offset_bytes,
            "lookedMs": self.looked_ms,
            **self.schemas.stored(),
        }

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> KafkaPosition:
        """Raises ValueError, KeyError or TypeError where it is none."""
        topics = {str(topic): found for topic, found in dict(content["topics"]).items()}
        return cls(
            {topic: str(found["id"]) for topic, found in topics.items()},
            {
                TopicPartition(topic, int(number)): int(offset)
                for topic, found in topics.items()
                for number, offset in dict(found["next"]).items()
            },
            int(content.get("offsetBytes", 0)),
            int(content.get("lookedMs", 0)),
            {
                TopicPartition(topic, int(number)): int(epoch)
                for topic, found in topics.items()
                for number, epoch in dict(found.get("epochs", {})).items()
            },
            KnownSchemas.from_stored(content),
        )
