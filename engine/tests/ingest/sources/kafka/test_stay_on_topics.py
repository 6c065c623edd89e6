"""A worker that stays on a table while records come, on a real broker."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.clock import Clock, SystemClock
from tideline.ingest.operation.assignment import NO_STAY, Stay
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.workers.stay import stay_on_table
from tideline.testing.fake_clock import FakeClock
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.topic_feed import TopicFeed, values

pytestmark = pytest.mark.kafka

LONG = Stay(for_ms=30_000, every_ms=0)


class Stream:
    """A topic with ten records at first, and a feed of it."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self._broker = broker
        self.topic = f"stay-{secrets.token_hex(4)}"
        broker.create_topic(self.topic)
        self.feed = TopicFeed.of(folder, broker.address, self.topic)
        self.produce(0)

    def produce(self, first: int) -> None:
        """Ten records."""
        self._broker.produce(self.topic, values((n, 1, f"v{n}") for n in range(first, first + 10)))

    def stay(
        self,
        stay: Stay = LONG,
        *,
        after: Callable[[int], None] = lambda _: None,
        may_stay: Callable[[], bool] = lambda: True,
        clock: Clock | None = None,
    ) -> OperationResult:
        """The result; `after` is called with the number of each commit."""
        operation = self.feed.plan()
        assert isinstance(operation, Operation)

        def execute(taken: Operation) -> OperationResult:
            result = self.feed.execute(taken)
            after(len(self.feed.results))
            return result

        return stay_on_table(
            operation,
            execute(operation),
            stay,
            execute,
            clock or SystemClock(),
            may_stay=may_stay,
            progress=lambda _: None,
        )

    @property
    def ids(self) -> list[int]:
        return [number for (number,) in self.feed.rows("id")]


@pytest.fixture
def stream(kafka_broker: KafkaBroker, tmp_path: Path) -> Stream:
    return Stream(kafka_broker, tmp_path)


def test_what_comes_behind_an_operation_is_in_and_counted_with_it(stream: Stream) -> None:
    result = stream.stay(after=lambda done: stream.produce(done * 10) if done < 3 else None)
    assert stream.ids == list(range(30))
    assert (result.outcome, result.source_records, result.rows_inserted) == (
        Outcome.SUCCEEDED,
        30,
        30,
    )
    assert result.instant == stream.feed.results[-1].instant
    assert result.notes[-1] == "3 commits while records came"


def test_without_a_stay_there_is_one_commit(stream: Stream) -> None:
    stream.stay(NO_STAY, after=lambda done: stream.produce(done * 10))
    assert stream.ids == list(range(10))


def test_a_table_that_changed_is_left(stream: Stream) -> None:
    stream.stay(after=lambda done: stream.produce(done * 10), may_stay=lambda: False)
    assert stream.ids == list(range(10))


def test_a_stay_ends_though_records_still_come(stream: Stream) -> None:
    stream.stay(Stay(3_000, 0), after=lambda done: stream.produce(done * 10))
    commits = len(stream.feed.results)
    assert commits > 1
    assert stream.ids == list(range(commits * 10))


def test_looks_are_as_far_apart_as_the_trigger_says(stream: Stream) -> None:
    clock = FakeClock()
    began_s = clock.monotonic_s()
    stream.stay(Stay(3_000, 1_000), after=lambda done: stream.produce(done * 10), clock=clock)
    # One at once, because nothing is known of what waits, and two in time.
    assert len(stream.feed.results) == 4
    assert clock.monotonic_s() - began_s == pytest.approx(2, abs=0.9)


def test_a_backlog_is_not_waited_for(stream: Stream) -> None:
    stream.feed.source = replace(stream.feed.source, records_max=2)
    clock = FakeClock()
    began_s = clock.monotonic_s()
    waited_s = []
    stream.stay(
        Stay(3_000, 1_000),
        after=lambda _: waited_s.append(clock.monotonic_s() - began_s),
        clock=clock,
    )
    assert waited_s == [0.0] * 5
    assert stream.ids == list(range(10))


def test_another_that_takes_in_the_same_is_found_by_its_checkpoint(stream: Stream) -> None:
    """Between the plan of the second commit and the commit itself."""
    operation = stream.feed.plan()
    assert isinstance(operation, Operation)
    first = stream.feed.execute(operation)
    stream.produce(10)

    def too_late(taken: Operation) -> OperationResult:
        assert isinstance(taken.work, IngestRange)
        stream.feed.drain()
        return stream.feed.execute(taken)

    result = stay_on_table(
        operation,
        first,
        LONG,
        too_late,
        SystemClock(),
        may_stay=lambda: True,
        progress=lambda _: None,
    )
    assert result == first
    assert stream.ids == list(range(20))


def test_a_signal_ends_the_stay_and_not_what_was_committed(stream: Stream) -> None:
    def interrupt(done: int) -> None:
        stream.produce(done * 10)
        if done == 2:
            raise KeyboardInterrupt

    result = stream.stay(after=interrupt)
    assert result.outcome is Outcome.SUCCEEDED
    assert stream.ids == list(range(20))
    assert stream.feed.plan() is not None
    stream.feed.drain()
    assert stream.ids == list(range(30))
