"""Which offsets come next, and what cannot be continued: values alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.kafka.offsets import (
    KafkaOffsets,
    OnDataLoss,
    PartitionOffsets,
    shares,
)
from tideline.ingest.sources.kafka.position import KafkaPosition
from tideline.ingest.sources.kafka.read_engine import LARGE_BYTES, ReadEngine
from tideline.ingest.sources.kafka.records import KafkaRange, Span, TopicPartition
from tideline.ingest.sources.source import HeldUp, Limits, Lost, Nothing

LIMITS = Limits(1, 0)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


def offsets(*ends: tuple[int, int, int], records_max: int = 1_000) -> KafkaOffsets:
    """Partitions of the topic `orders` with these first, end and start offsets."""
    partitions = {
        TopicPartition("orders", number): PartitionOffsets(*found)
        for number, found in enumerate(ends)
    }
    return KafkaOffsets({"orders": "id-1"}, partitions, records_max=records_max)


def position(*following: int, topic_id: str = "id-1") -> KafkaPosition:
    offsets = {TopicPartition("orders", n): offset for n, offset in enumerate(following)}
    return KafkaPosition({"orders": topic_id}, offsets)


def spans(planned: object) -> list[tuple[int, int, int]]:
    assert isinstance(planned, KafkaRange)
    return [(span.partition.number, span.first, span.end) for span in planned.spans]


def lost(found: KafkaOffsets, known: KafkaPosition) -> str:
    planned = found.plan(known, LIMITS)
    assert isinstance(planned, Lost)
    return f"{planned.what}; {planned.remedy}"


def test_a_table_that_has_read_nothing_begins_at_the_start() -> None:
    assert spans(offsets((0, 10, 0), (5, 9, 7)).plan(None, LIMITS)) == [(0, 0, 10), (1, 7, 9)]


def test_it_continues_behind_what_is_in_the_table() -> None:
    found = offsets((0, 10, 0), (0, 9, 0))
    planned = found.plan(position(4, 9), LIMITS)
    assert spans(planned) == [(0, 4, 10)]
    assert isinstance(planned, KafkaRange)
    after = found.advance(position(4, 9), planned)
    assert after == position(10, 9)
    assert isinstance(found.plan(after, LIMITS), Nothing)
    assert found.is_drained(after)
    assert not found.is_drained(position(4, 9))
    backlog = found.backlog(position(4, 9), LIMITS)
    assert (backlog.parts, backlog.records) == (1, 6)


def test_a_partition_that_was_added_is_read_from_its_first_offset() -> None:
    found = offsets((0, 10, 10), (0, 3, 3))
    assert spans(found.plan(position(10), LIMITS)) == [(1, 0, 3)]


def test_a_table_that_begins_at_a_time_keeps_where_that_was_of_every_partition() -> None:
    """Also of those where no record is so new, or that have no place in the first commit."""
    timed = replace(offsets((0, 10, 8), (0, 7, 7), (0, 9, 5), records_max=2), begins_at_start=False)
    planned = timed.plan(None, LIMITS)
    assert spans(planned) == [(0, 8, 9), (1, 7, 7), (2, 5, 6)]
    assert isinstance(planned, KafkaRange)
    grown = offsets((0, 10, 0), (0, 8, 0), (0, 9, 0))
    assert spans(grown.plan(timed.advance(None, planned), LIMITS)) == [
        (0, 9, 10),
        (1, 7, 8),
        (2, 6, 9),
    ]
    narrow = replace(timed, records_max=1)
    assert spans(narrow.plan(None, LIMITS)) == [(0, 8, 9), (1, 7, 7), (2, 5, 5)]


def test_partitions_without_a_leader_are_left_out_and_named() -> None:
    found = replace(offsets((0, 10, 0)), leaderless=(ONE,))
    assert spans(found.plan(position(4, 9), LIMITS)) == [(0, 4, 10)]
    assert spans(found.plan(None, LIMITS)) == [(0, 0, 10)]
    (held,) = found.held_up(0)
    assert held == HeldUp(
        "orders/1 has no leader, and is not read: start the brokers that have it", is_fault=True
    )
    many = replace(found, leaderless=tuple(TopicPartition("orders", n) for n in range(1, 6)))
    assert many.held_up(0)[0].words.startswith(
        "orders/1, orders/2, orders/3, 2 more partitions have no leader, and are not read"
    )
    # Where it began nobody could say later.
    late = replace(found, begins_at_start=False)
    for begins in (late, replace(late, begins_at_end=True)):
        assert begins.plan(None, LIMITS) == Nothing()
        assert spans(begins.plan(position(4, 9), LIMITS)) == [(0, 4, 10)]
    assert isinstance(
        replace(late, begins_at_end=True).plan_again(position(4), inserts=False), Lost
    )
    nothing = KafkaOffsets({"orders": "id-1"}, leaderless=(ZERO,))
    again = nothing.plan_again(position(4), inserts=False)
    assert isinstance(again, Lost)
    assert again.what.startswith("orders/0 has no leader")


def test_records_that_wait_for_a_transaction_are_named_once_that_is_old() -> None:
    open_spans = tuple(Span(TopicPartition("orders", n), "id-1", 5, 5 + n) for n in range(1, 6))
    found = replace(offsets((0, 5, 0)), held=open_spans[:2], oldest_ms=1_000)
    remedy = "where nobody ends it, find it with kafka-transactions.sh find-hanging, and abort it"
    assert [item.words for item in found.held_up()] == [
        "3 offsets of orders/1 from 5 on, orders/2 from 5 on wait for a transaction that is open; "
        f"the oldest is of 1970-01-01 00:00:01 UTC: {remedy}"
    ]
    assert found.held_up(999) == ()
    (old,) = found.held_up(1_000)
    assert old.words.startswith("records of orders/1 from 5 on")
    assert not old.is_fault
    unknown = replace(found, held=open_spans, oldest_ms=None)
    assert unknown.held_up(10_000) == ()
    assert "orders/3 from 5 on, 2 more partitions wait for a transaction that is open: where" in (
        unknown.held_up()[0].words
    )
    # A producer may write any time.
    assert "the oldest" not in replace(found, oldest_ms=1 << 60).held_up()[0].words


def test_a_commit_takes_equal_numbers_from_partitions() -> None:
    found = offsets((0, 1_000, 0), (0, 10, 0), (0, 1_000, 0), records_max=100)
    assert spans(found.plan(None, LIMITS)) == [(0, 0, 45), (1, 0, 10), (2, 0, 45)]


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(1, 120))
def test_shares_are_all_that_fits_and_fair(waiting: list[int], total: int) -> None:
    wanted = {TopicPartition("t", n): count for n, count in enumerate(waiting)}
    given = shares(wanted, total)
    assert sum(given.values()) == min(total, sum(waiting))
    assert all(0 <= given[partition] <= wanted[partition] for partition in wanted)
    short = [given[partition] for partition in wanted if given[partition] < wanted[partition]]
    # A share that is cut short is as large as any other, but for what cannot be divided.
    assert not short or max(given.values()) - min(short) <= 1


def test_a_topic_of_another_id_is_another_topic() -> None:
    words = lost(offsets((0, 100, 0)), position(10, topic_id="id-0"))
    assert words == (
        "topic orders was deleted and created again; read it from its start with tideline resync, "
        "or a higher number in spec.resync"
    )


def test_offsets_that_are_gone_are_named_and_skipped_only_by_choice() -> None:
    found = offsets((25, 100, 25))
    assert lost(found, position(10)) == (
        "15 offsets of orders/0 from 10 are gone: the topic's retention was faster; continue at "
        "what is left with source.onDataLoss: Skip"
    )
    planned = replace(found, on_data_loss=OnDataLoss.SKIP).plan(position(10), LIMITS)
    assert planned == KafkaRange((Span(ZERO, "id-1", 25, 100, skipped=15),))


def test_records_that_brokers_lost_partitions_and_topics_that_are_gone_are_named() -> None:
    assert "orders/0 ends at offset 5, the table has read to 10" in lost(
        offsets((0, 5, 0)), position(10)
    )
    assert "there is no partition orders/1 any more" in lost(offsets((0, 5, 0)), position(5, 5))
    gone = KafkaOffsets(missing=("orders",))
    assert lost(gone, position(5)).startswith("there is no topic orders any more; read it")


def test_a_topic_that_is_not_there_yet_is_waited_for() -> None:
    gone = KafkaOffsets(missing=("orders",))
    assert isinstance(gone.plan(None, LIMITS), Nothing)
    assert isinstance(gone.plan(KafkaPosition({}, {}), LIMITS), Nothing)
    assert not gone.exists


def test_a_topic_that_the_spec_names_no_more_is_no_loss() -> None:
    found = offsets((0, 5, 0))
    both = KafkaPosition(
        {"orders": "id-1", "other": "id-2"}, {ZERO: 5, TopicPartition("other", 0): 8}
    )
    assert isinstance(found.plan(both, LIMITS), Nothing)


def test_a_range_is_taken_only_as_it_was_planned() -> None:
    planned = KafkaRange((Span(ZERO, "id-1", 0, 5), Span(ONE, "id-1", 3, 9)))
    found = offsets((0, 10, 0), (0, 9, 0))
    assert found.still_there(planned, None) == planned
    assert found.still_there(planned, position(5, 3)) == planned.only(["orders/1"])
    assert offsets((1, 10, 0), (0, 9, 0)).still_there(planned, None) == planned.only(["orders/1"])
    again = replace(found, topic_ids={"orders": "id-2"})
    assert again.still_there(planned, None) == KafkaRange()


def test_what_begins_again_is_taken_though_the_log_is_another_one() -> None:
    found = replace(offsets((0, 10, 0)), replaced=frozenset({ZERO}))
    read = position(8)
    assert "other records before offset 8" in lost(found, read)
    begin = found.plan_again(read, inserts=False)
    assert isinstance(begin, KafkaRange)
    assert spans(found.still_there(begin, None)) == [(0, 0, 0)]
    assert spans(found.still_there(begin, read)) == [(0, 0, 0)]
    # Other ranges are left to the next plan, which says so.
    assert found.still_there(KafkaRange((Span(ZERO, "id-1", 8, 9),)), read) == KafkaRange()


def test_bytes_are_bounded_by_what_an_offset_had_in_the_commit_before() -> None:
    found = replace(offsets((0, 50_000, 0), records_max=20_000), bytes_max=1_000_000)
    # Of the first commit nothing is known.
    planned = found.plan(None, LIMITS)
    assert spans(planned) == [(0, 0, 1_000)]
    assert isinstance(planned, KafkaRange)
    after = found.advance(None, replace(planned, size_bytes=250_001))
    assert after.offset_bytes == 251
    assert spans(found.plan(after, LIMITS)) == [(0, 1_000, 1_000 + 1_000_000 // 251)]
    assert spans(found.plan(replace(after, offset_bytes=1), LIMITS)) == [(0, 1_000, 21_000)]
    assert spans(found.plan(replace(after, offset_bytes=9**9), LIMITS)) == [(0, 1_000, 1_001)]
    # Of a commit without records nothing is learned.
    assert found.advance(after, KafkaRange((Span(ZERO, "id-1", 5, 5),))).offset_bytes == 251


@pytest.mark.parametrize("engine", [ReadEngine.SPARK, ReadEngine.AUTO])
def test_spark_reads_what_is_large_in_ranges_of_other_bytes(engine: ReadEngine) -> None:
    found = replace(
        offsets((0, 10**9, 0), (0, 10**9, 0)), engine=engine, spark_bytes_max=2_000_000_000
    )
    first = found.plan(None, LIMITS)
    # Of the first commit nothing is known.
    assert spans(first) == [(0, 0, 500), (1, 0, 500)]
    assert isinstance(first, KafkaRange)
    assert not first.on_spark
    after = found.advance(None, replace(first, size_bytes=100_000))
    planned = found.plan(after, LIMITS)
    assert spans(planned) == [(0, 500, 10_000_500), (1, 500, 10_000_500)]
    assert isinstance(planned, KafkaRange)
    assert planned.on_spark
    assert planned.size_bytes == 2_000_000_000
    assert KafkaRange.from_stored(planned.stored()) == planned
    assert planned.only(["orders/1"]).on_spark
    assert found.still_there(planned, after) == planned
    mine = replace(found, engine=ReadEngine.IN_PROCESS)
    assert spans(mine.plan(after, LIMITS)) == [(0, 500, 1_000), (1, 500, 1_000)]


@pytest.mark.parametrize(("more", "on_spark"), [(0, False), (1, True)])
def test_auto_is_spark_where_more_waits_than_a_process_takes(more: int, on_spark: bool) -> None:
    after = replace(position(0), offset_bytes=1_024)
    found = replace(offsets((0, LARGE_BYTES // 1_024 + more, 0)), engine=ReadEngine.AUTO)
    planned = found.plan(after, LIMITS)
    assert isinstance(planned, KafkaRange)
    assert planned.on_spark == on_spark
    assert (planned.length > 1_000) == on_spark


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_spans_have_each_offset_once_and_places_in_their_order(
    given_spans: list[tuple[int, int]], length_max: int
) -> None:
    whole = KafkaRange(
        tuple(
            Span(TopicPartition("orders", number), "id", first, first + length)
            for number, (first, length) in enumerate(given_spans)
        )
    )
    divided = whole.divided(length_max)
    assert all(0 < span.length <= length_max for span in divided)
    places = [
        offset + whole.shifts[span.partition]
        for span in divided
        for offset in range(span.first, span.end)
    ]
    assert places == list(range(whole.length))


def test_what_comes_is_gathered_until_a_commit_is_due_or_full() -> None:
    found = replace(
        offsets((0, 30, 0), (0, 30, 0), records_max=50), commit_every_ms=60_000, looked_ms=100_000
    )
    assert isinstance(found.plan(None, Limits(1, 101_000)), KafkaRange), "the first one is due"
    after = found.advance(position(10, 20), KafkaRange((Span(ZERO, "id-1", 10, 20),)))
    assert after == replace(position(20, 20), looked_ms=100_000)
    waits = found.plan(after, Limits(1, 130_000))
    assert isinstance(waits, Nothing)
    assert (waits.until_ms, waits.may_be_earlier) == (160_000, True)
    assert found.backlog(after, Limits(1, 130_000)).records == 20
    assert isinstance(found.plan(after, Limits(1, 160_000)), KafkaRange)
    assert isinstance(found.at_once().plan(after, Limits(1, 130_000)), KafkaRange)
    full = replace(found, records_max=20).plan(after, Limits(1, 130_000))
    assert spans(full) == [(0, 20, 30), (1, 20, 30)]
    # A clock that was ahead is not waited for.
    assert isinstance(found.plan(after, Limits(1, 99_000)), KafkaRange)


@pytest.mark.parametrize("known", [position(10, 3), KafkaPosition({}, {}, 17, 5)])
def test_positions_and_ranges_survive_storing(known: KafkaPosition) -> None:
    assert KafkaPosition.from_stored(known.stored()) == known
    checkpoint = Checkpoint(3, known, address="kafka:orders")
    assert Checkpoint.decode(checkpoint.encode(), name="orders") == checkpoint
    planned = KafkaRange((Span(ZERO, "id-1", 0, 5, 2),))
    assert KafkaRange.from_stored(planned.stored()) == planned
