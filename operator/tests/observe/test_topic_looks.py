"""Looks at topics: how often they ask for the age of what waits, and what comes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tideline.errors import StorageUnavailableError
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.offsets import KafkaOffsets, PartitionOffsets
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.records import Span, TopicPartition
from tideline.ingest.sources.source import Reach
from tideline.testing.fake_clock import FakeClock
from tideline_operator.decide.actions import Start, Wait, WaitKind
from tideline_operator.decide.observed import Observed, ObservedSource
from tideline_operator.decide.planner import plan
from tideline_operator.observe.observation import open_with_environment
from tideline_operator.observe.source_looks import SourceLooks, with_environment
from tideline_operator.report.conditions import RECORDS_HELD
from tideline_operator.report.held_up import PASSING_MS
from tideline_operator.report.status import observed_status
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import ConditionType, LakeTableStatus
from tideline_operator.testing.table_states import EMPTY, NOW_MS, TABLE, resolved

TOPICS = replace(
    resolved(),
    sources={"landing": DeclaredKafka(brokers="broker:9092", topics=("orders",), schema=())},
)


def offsets(end: int, oldest_ms: int | None = None) -> KafkaOffsets:
    partitions = {TopicPartition("orders", 0): PartitionOffsets(0, end, 0)}
    return KafkaOffsets({"orders": "id"}, partitions, oldest_ms=oldest_ms)


def test_the_age_is_asked_for_at_most_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def positions(_: DeclaredKafka, reach: Reach, *__: object) -> KafkaOffsets:
        asked.append(reach.asks_age)
        return offsets(3)

    monkeypatch.setattr(DeclaredKafka, "positions", positions)
    clock = FakeClock()
    looks = SourceLooks(clock, with_environment(open_with_environment))
    (ingest,) = TOPICS.spec.ingest
    for _ in range(21):
        looks.look(TOPICS, ingest, {})
        clock.advance(1)
    assert [number for number, asks in enumerate(asked) if asks] == [0, 10, 20]
    looks.forget(TOPICS)
    looks.look(TOPICS, ingest, {})
    assert asked[-1]


def test_the_status_says_how_many_records_wait_and_since_when() -> None:
    def status(found: KafkaOffsets, before: LakeTableStatus = EMPTY) -> LakeTableStatus:
        observed = Observed(
            table=replace(TABLE, checkpoints={}), sources={"landing": ObservedSource(found)}
        )
        actions = plan(TOPICS, before, observed, NOW_MS)
        return observed_status(TOPICS, before, observed, actions, NOW_MS)

    first = status(offsets(3, oldest_ms=5_000))
    seen = first.ingest["landing"]
    assert (seen.lag_records, seen.oldest_record_at) == (3, Timestamp(5_000))
    assert seen.oldest_file_at is None
    # A look that did not ask keeps what is known, as long as records wait.
    assert status(offsets(4), first).ingest["landing"].oldest_record_at == Timestamp(5_000)
    assert status(offsets(0), first).ingest["landing"].oldest_record_at is None


def test_what_cannot_be_read_is_a_condition_with_the_remedy_until_it_is_read() -> None:
    def status(found: KafkaOffsets | None, before: LakeTableStatus = EMPTY) -> LakeTableStatus:
        sources = {} if found is None else {"landing": ObservedSource(found)}
        observed = Observed(table=replace(TABLE, checkpoints={}), sources=sources)
        actions = plan(TOPICS, before, observed, NOW_MS)
        return observed_status(TOPICS, before, observed, actions, NOW_MS)

    def healthy(found: LakeTableStatus) -> tuple[str, str]:
        condition = next(item for item in found.conditions if item.type is ConditionType.HEALTHY)
        return condition.reason, condition.message

    gone = replace(offsets(3), leaderless=(TopicPartition("orders", 1),))
    first = status(gone)
    reason, message = healthy(first)
    assert reason == RECORDS_HELD
    assert message.startswith("landing: orders/1 has no leader, and is not read: start the brokers")
    # A turn that does not look leaves it as it is.
    assert healthy(status(None, first))[0] == RECORDS_HELD
    assert healthy(status(offsets(3), first))[0] == "NoStuckInstant"

    waiting = (Span(TopicPartition("orders", 0), "id", 3, 5),)
    young = replace(offsets(3, NOW_MS - PASSING_MS + 1), held=waiting)
    assert healthy(status(young))[0] == "NoStuckInstant"
    old = replace(young, oldest_ms=NOW_MS - PASSING_MS)
    reason, message = healthy(status(old))
    assert reason == RECORDS_HELD
    assert "records of orders/0 from 3 on wait for a transaction that is open" in message
    assert "kafka-transactions.sh find-hanging" in message


def test_looks_continue_while_a_commit_is_not_due_for_it_may_be_full_earlier() -> None:
    position = KafkaPosition({"orders": "id"}, {TopicPartition("orders", 0): 1}, looked_ms=NOW_MS)
    checkpoints = {"landing": Checkpoint(1, position)}

    def planned(records_max: int) -> list[tuple[WaitKind, int]] | str:
        found = replace(offsets(3), records_max=records_max, commit_every_ms=60_000)
        observed = Observed(
            table=replace(TABLE, checkpoints=checkpoints),
            sources={"landing": ObservedSource(found)},
        )
        actions = plan(TOPICS, EMPTY, observed, NOW_MS + 1_000)
        if any(isinstance(action, Start) for action in actions):
            return "ingest"
        waits = [item for item in actions if isinstance(item, Wait) and item.subject == "landing"]
        return [(item.kind, item.until_ms - NOW_MS) for item in waits]

    assert planned(100) == [(WaitKind.POLL, 31_000), (WaitKind.SETTLE, 60_000)]
    assert planned(2) == "ingest"


def test_brokers_that_do_not_answer_cost_one_look_in_thirty_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, asked = FakeClock(), []

    def positions(source: DeclaredKafka, *_: object) -> KafkaOffsets:
        asked.append(source.brokers)
        clock.advance(20)
        raise StorageUnavailableError("no answer")

    monkeypatch.setattr(DeclaredKafka, "positions", positions)
    looks = SourceLooks(clock, with_environment(open_with_environment))
    (ingest,) = TOPICS.spec.ingest
    first = looks.look(TOPICS, ingest, {})
    for _ in range(29):
        clock.advance(1)
        assert looks.look(TOPICS, ingest, {}) == first
    assert first.problem is not None
    assert len(asked) == 1
    clock.advance(1)
    looks.look(TOPICS, ingest, {})
    assert len(asked) == 2
    # A spec that names others is not held back.
    source = TOPICS.sources["landing"]
    assert isinstance(source, DeclaredKafka)
    moved = replace(TOPICS, sources={"landing": replace(source, brokers="other:9092")})
    looks.look(moved, ingest, {})
    assert asked[-1] == "other:9092"
