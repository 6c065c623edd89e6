"""A spec that names other topics than before: what it continues from, and what is refused."""

from __future__ import annotations

from dataclasses import replace

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.offsets import KafkaOffsets
from tideline.ingest.sources.kafka.position import KIND, KafkaPosition
from tideline.ingest.sources.kafka.records import TopicPartition
from tideline.ingest.sources.resume import Claim, Refused, Resume, resume_of

_BEFORE = DeclaredKafka(brokers="b:1", topics=("orders",), schema=())
_CHECKPOINTS = {
    "landing": Checkpoint(
        4,
        KafkaPosition({"orders": "id-1"}, {TopicPartition("orders", 0): 9}),
        address=_BEFORE.address(""),
    )
}


def resumed(source: DeclaredKafka, available: KafkaOffsets | None) -> Resume | Refused:
    claim = Claim("landing", frozenset(["landing"]), "upsert", KIND, source.address(""))
    return resume_of(claim, _CHECKPOINTS, available)


def test_topics_are_added_and_become_a_pattern_and_the_ingest_continues() -> None:
    here = KafkaOffsets({"orders": "id-1", "returns": "id-2"})
    more = replace(_BEFORE, topics=("orders", "returns"))
    pattern = replace(_BEFORE, topics=(), pattern="orders|returns")
    for source in (more, pattern):
        assert resumed(source, here) == Resume(_CHECKPOINTS["landing"])
        assert resumed(source, None) == Resume(_CHECKPOINTS["landing"])


def test_other_topics_and_topics_of_another_cluster_are_another_source() -> None:
    other = replace(_BEFORE, topics=("returns",))
    refused = resumed(other, KafkaOffsets({"returns": "id-2"}))
    assert isinstance(refused, Refused)
    assert refused.reason == "SourceMoved"
    assert refused.message.startswith(
        "the checkpoint is of kafka:orders, and the source is kafka:returns now: revert the change"
    )
    more = replace(_BEFORE, topics=("orders", "returns"))
    elsewhere = KafkaOffsets({"orders": "id-8", "returns": "id-9"})
    assert isinstance(resumed(more, elsewhere), Refused)
