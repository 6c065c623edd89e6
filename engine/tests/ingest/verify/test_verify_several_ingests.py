"""A table of several ingests, some of keys to delete, compared with all their sources."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.verify.compare import (
    COMMIT,
    DELETES,
    INSERTS,
    KNOWN,
    PART,
    PARTITION,
    WHEN,
    WIDE,
    Rules,
    compare_bucket,
)
from tideline.ingest.verify.key_buckets import KEY
from tideline.ingest.verify.verification import Kind, Verification
from tideline.lake_table import LakeTable
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.landing_feed import LandingFeed
from tideline.testing.planted_differences import named, verified_together
from tideline.testing.stream_feed import columns
from tideline.testing.topic_feed import TopicFeed, values

KEYS = columns(id="long")


def feeds(folder: Path, **given: str) -> tuple[LandingFeed, LandingFeed]:
    """Orders, and a second ingest into their table; `given` are the operation of both, or else of
    the second."""
    orders = LandingFeed.of(folder, name="orders", operation=given.get("first", "upsert"))
    second = LandingFeed.of(folder, name="second", operation=given.get("second", "upsert"))
    return orders, second


def verified(*given: LandingFeed) -> Verification:
    return verified_together(*(feed.declared for feed in given))


def table_of(feed: LandingFeed) -> LakeTable:
    table = feed.table()
    assert table is not None
    return table


def counts(found: Verification) -> tuple[int, int, int]:
    assert found.found.is_equal, found.found
    return found.found.equal, found.found.unknown, found.found.undecided


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_files_of_two_ingests_count_in_the_order_of_their_commits(
    table_type: str, tmp_path: Path
) -> None:
    orders, second = (replace(feed, table_type=table_type) for feed in feeds(tmp_path))
    orders.land(9, [(1, 1, "a"), (2, 1, "a"), (3, 1, "a")])
    orders.drain()
    # Older by its time, and later in the table.
    second.land(1, [(2, 2, "b"), (4, 2, "b")])
    second.drain()
    orders.land(10, [(3, 3, "c")])
    orders.drain()
    clean = verified(orders, second)
    assert counts(clean) == (4, 0, 0)
    assert [(item.ingest, item.records) for item in clean.ingests] == [("orders", 4), ("second", 2)]
    assert counts(verified(second, orders)) == (4, 0, 0)

    table = table_of(orders)
    table.upsert([{"id": 2, "ts": 1, "v": "a"}])
    table.delete("id = 4")
    table.append([{"id": 9, "ts": 1, "v": "x"}, {"id": 1, "ts": 1, "v": "a"}])
    assert named(verified(orders, second)) == {
        (Kind.DIFFERENT, "2"),
        (Kind.MISSING, "4"),
        (Kind.EXTRA, "9"),
        (Kind.EXTRA, "1"),
    }


def test_inserts_of_two_ingests_are_one_bag(tmp_path: Path) -> None:
    orders, second = feeds(tmp_path, first="insert", second="bulk_insert")
    orders.land(1, [(1, 1, "a"), (1, 1, "a")])
    second.land(1, [(1, 1, "a"), (2, 1, "b")])
    orders.drain()
    second.drain()
    assert counts(verified(orders, second)) == (4, 0, 0)
    table_of(orders).append([{"id": 1, "ts": 1, "v": "a"}])
    assert named(verified(orders, second)) == {(Kind.EXTRA, "1")}


def test_an_ingest_that_has_taken_nothing_in_adds_nothing(tmp_path: Path) -> None:
    orders, second = feeds(tmp_path)
    with pytest.raises(ConfigError, match="there is no table yet"):
        verified(orders, second)
    orders.land(1, [(1, 1, "a")])
    second.land(1, [(2, 1, "a")])
    orders.drain()
    assert counts(verified(orders, second)) == (1, 0, 0)


def test_a_table_that_is_loaded_by_inserts_and_then_updated_is_compared(tmp_path: Path) -> None:
    loaded, orders = feeds(tmp_path, first="bulk_insert")
    loaded = replace(loaded, files_max=1)
    loaded.land(1, [(n, 1, "a") for n in range(6)])
    loaded.drain()
    orders.land(1, [(n, 2, "b") for n in range(4, 8)])
    orders.drain()
    assert counts(verified(loaded, orders)) == (8, 0, 0)
    # Of a key that was there already the table has two rows.
    second = loaded.land(2, [(7, 3, "c"), (8, 3, "c")])
    loaded.drain()
    assert counts(verified(loaded, orders)) == (8, 0, 1)
    table = table_of(orders)
    table.upsert([{"id": 5, "ts": 9, "v": "changed"}])
    table.delete("id = 2")
    table.append([{"id": 8, "ts": 3, "v": "c"}])
    faults = {(Kind.DIFFERENT, "5"), (Kind.MISSING, "2"), (Kind.EXTRA, "8")}
    assert named(verified(loaded, orders)) == faults
    second.unlink()
    # One row of key 8 may be of the file that is gone, and so may one of key 7. Key 2 was of the
    # first file: the one that is gone only inserts, and others have no part that is gone.
    found = verified(loaded, orders)
    assert named(found) == {(Kind.DIFFERENT, "5")}
    assert (found.found.undecided, found.found.unknown) == (2, 1)


@pytest.mark.parametrize("operation", ["upsert", "insert"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_keys_that_an_ingest_deletes_are_not_in_the_table(
    operation: str, table_type: str, tmp_path: Path
) -> None:
    orders, gone = feeds(tmp_path, first=operation, second="delete")
    orders, gone = replace(orders, table_type=table_type), replace(gone, landed=KEYS)
    orders.land(1, [(n, 1, "a") for n in range(10)])
    orders.drain()
    gone.land(1, [(n,) for n in range(5)])
    gone.land(2, [(99,)])
    gone.drain()
    orders.land(2, [(3, 2, "again"), (4, 2, "again")])
    orders.drain()
    assert len(orders.rows()) == 7
    clean = verified(orders, gone)
    assert counts(clean) == (7, 0, 0)
    assert clean.records == 18

    table = table_of(orders)
    table.append([{"id": 1, "ts": 1, "v": "a"}, {"id": 3, "ts": 2, "v": "again"}])
    table.delete("id = 4")
    assert named(verified(orders, gone)) == {
        (Kind.EXTRA, "1"),
        (Kind.EXTRA, "3"),
        (Kind.MISSING, "4"),
    }


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_keys_that_are_there_several_times_are_deleted_once_or_always(
    table_type: str, tmp_path: Path
) -> None:
    orders, gone = feeds(tmp_path, first="insert", second="delete")
    orders, gone = replace(orders, table_type=table_type), replace(gone, landed=KEYS)
    orders.land(1, [(1, 1, "a"), (1, 2, "b"), (2, 1, "a"), (2, 2, "b")])
    orders.drain()
    gone.land(1, [(1,)])
    gone.drain()
    # Of a merge-on-read table a delete takes one row of a file away, as in Hudi.
    assert counts(verified(orders, gone)) == (2, 0, 1)


def test_keys_of_a_partitioned_table_are_deleted_in_their_partitions(tmp_path: Path) -> None:
    orders, gone = (replace(feed, partition_by=("v",)) for feed in feeds(tmp_path, second="delete"))
    gone = replace(gone, landed=columns(id="long", v="string"))
    orders.land(1, [(1, 1, "a"), (1, 1, "b"), (2, 1, "a")])
    orders.drain()
    gone.land(1, [(1, "a"), (2, "b")])
    gone.drain()
    assert counts(verified(orders, gone)) == (2, 0, 0)
    table_of(orders).upsert([{"id": 1, "ts": 1, "v": "a"}])
    found = verified(orders, gone).found.first
    assert [(row.kind, row.key, row.partition) for row in found] == [(Kind.EXTRA, "1", "a")]


def test_deletes_win_over_ordering_values_and_gone_ones_leave_rows_open(tmp_path: Path) -> None:
    orders, gone = (replace(feed, ordering=("ts",)) for feed in feeds(tmp_path, second="delete"))
    gone = replace(gone, landed=KEYS)
    orders.land(1, [(n, 50, "a") for n in range(4)])
    orders.drain()
    deletes = gone.land(1, [(1,)])
    gone.drain()
    orders.land(2, [(2, 60, "b"), (1, 60, "b")])
    orders.drain()
    assert counts(verified(orders, gone)) == (4, 0, 0)
    deletes.unlink()
    table_of(orders).delete("id = 0 or id = 2")
    # The file that is gone may have deleted key 0, and not what came later.
    found = verified(orders, gone)
    assert named(found) == {(Kind.MISSING, "2")}
    assert found.found.unknown == 1


def test_a_table_that_others_fill_has_no_key_that_was_deleted_since(tmp_path: Path) -> None:
    orders, gone = feeds(tmp_path, second="delete")
    gone = replace(gone, landed=KEYS)
    orders.land(1, [(n, 1, "a") for n in range(4)])
    orders.drain()
    gone.land(1, [(1,), (2,)])
    gone.drain()
    # Rows of another writer, before and behind the delete.
    table_of(orders).upsert([{"id": 2, "ts": 2, "v": "again"}])
    assert counts(verified(gone)) == (0, 3, 0)


def test_of_rows_that_others_write_one_of_before_the_delete_is_extra() -> None:
    def side(**more: list[Any]) -> pa.Table:
        keys = {KEY: ["1", "2", "3"][: len(next(iter(more.values())))]}
        return pa.table({**keys, PARTITION: [""] * len(keys[KEY]), **more})

    source = side(
        **{DELETES: [True] * 2, WIDE: [False] * 2, INSERTS: [False] * 2,
           PART: pa.array([0, 0], pa.int32()), KNOWN: pa.array([0, 0], pa.int8()),
           WHEN: ["20261128120000000"] * 2}
    )  # fmt: skip
    table = side(**{COMMIT: ["20261128110000000", "20261128130000000", "20261128110000000"]})
    found = compare_bucket(source, table, Rules((), only_deletes=True, lost_early=True))
    assert [(row.kind, row.key) for row in found.first] == [(Kind.EXTRA, "1")]
    assert (found.extra, found.unknown) == (1, 2)


@dataclass
class _Topic:
    feed: TopicFeed

    @property
    def declared(self) -> Operation:
        work = IngestRange("orders", self.feed.source, self.feed.source.no_range(), 0, "upsert")
        return Operation("verify-orders", self.feed.target, work)


@pytest.mark.kafka
@pytest.mark.parametrize("ordering", [(), ("ts",)])
def test_between_a_topic_and_files_ordering_values_decide_or_nothing(
    ordering: tuple[str, ...], kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = f"orders-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    records = _Topic(
        replace(TopicFeed.of(tmp_path, kafka_broker.address, topic), ordering=ordering)
    )
    files = LandingFeed.of(tmp_path, ordering=ordering)
    files.land(1, [(n, 5, "file") for n in range(3)])
    files.drain()
    kafka_broker.produce(topic, values((n, 9, "topic") for n in range(2, 6)))
    records.feed.drain()

    def found() -> Verification:
        return verified_together(records.declared, files.declared)

    assert counts(found()) == ((6, 0, 0) if ordering else (5, 0, 1))
    table_of(files).upsert([{"id": n, "ts": 1, "v": "changed"} for n in (0, 2, 5)])
    changed = {(Kind.DIFFERENT, "0"), (Kind.DIFFERENT, "5")}
    if ordering:
        # An upsert of lower values changes nothing.
        table_of(files).upsert([{"id": n, "ts": 10, "v": "changed"} for n in (0, 2, 5)])
        changed.add((Kind.DIFFERENT, "2"))
    assert named(found()) == changed
