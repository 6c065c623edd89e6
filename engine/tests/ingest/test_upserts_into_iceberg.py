"""Ingests that upsert into Iceberg tables, and delete from them: each change once, and of a key the
newest row."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.operation.result import Outcome
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.iceberg_feed import IcebergFeed, new_target, tables_through

UPSERT = {"write_operation": "upsert"}
Row = dict[str, Any]


@pytest.fixture
def feed(tmp_path: Path) -> IcebergFeed:
    return IcebergFeed(tmp_path, new_target(partition_by=("bucket(2, id)",), ordering=("ts",)))


def row(number: int, ts: int, *, gone: bool = False) -> Row:
    return {"id": number, "ts": ts, "n": f"{number} at {ts}", "_hoodie_is_deleted": gone}


def found(feed: IcebergFeed) -> dict[int, int]:
    rows = feed.lake().to_arrow().to_pylist()
    assert all(set(item) == {"id", "ts", "n"} for item in rows), "the flag is no column"
    assert all(item["n"] == f"{item['id']} at {item['ts']}" for item in rows)
    assert len({item["id"] for item in rows}) == len(rows)
    return {item["id"]: item["ts"] for item in rows}


def through(feed: IcebergFeed, plan: FaultPlan) -> FaultyStore:
    """The store that an ingest wrote through."""
    stores: list[FaultyStore] = []

    def wrapped(inner: ObjectStore) -> FaultyStore:
        stores.append(FaultyStore(inner, plan))
        return stores[-1]

    with tables_through(wrapped):
        feed.run(**UPSERT)
    return stores[0]


def test_the_newest_row_of_a_key_stays_and_deletes_take_out(feed: IcebergFeed) -> None:
    feed.land([row(1, 5), row(2, 5), row(3, 5), row(3, 9), row(3, 7)])
    result = feed.run(**UPSERT)
    assert (result.outcome, result.rows_inserted) == (Outcome.SUCCEEDED, 3)
    assert found(feed) == {1: 5, 2: 5, 3: 9}
    feed.land([row(1, 4), row(2, 6, gone=True), row(3, 8, gone=True), row(4, 1, gone=True)])
    result = feed.run(**UPSERT)
    assert (result.rows_inserted, result.rows_updated, result.rows_deleted) == (0, 0, 1)
    assert found(feed) == {1: 5, 3: 9}
    feed.land([row(1, 5), row(2, 1)])
    assert feed.run(**UPSERT).rows_updated == 1
    assert found(feed) == {1: 5, 2: 1, 3: 9}
    assert feed.run(**UPSERT).outcome is Outcome.NOTHING


def test_an_ingest_that_deletes(feed: IcebergFeed) -> None:
    feed.land([row(number, 1) for number in range(5)])
    feed.run(**UPSERT)
    feed.land([{"id": 1}, {"id": 3}, {"id": 9}])
    assert feed.run(write_operation="delete").rows_deleted == 2
    assert found(feed) == {0: 1, 2: 1, 4: 1}


def test_deaths_anywhere_leave_each_change_once(feed: IcebergFeed) -> None:
    feed.land([row(number, 2) for number in range(6)])
    feed.run(**UPSERT)
    feed.land([row(1, 3), row(2, 3, gone=True), row(7, 1)])
    wanted = {0: 2, 1: 3, 3: 2, 4: 2, 5: 2, 7: 1}
    total = len(through(feed, FaultPlan()).writes)
    assert found(feed) == wanted
    assert total >= 4
    for number in range(1, total + 1):
        for plan in (FaultPlan(number), FaultPlan(crash_after_write=number)):
            again = feed.elsewhere()
            again.run(files_max=1, **UPSERT)
            with pytest.raises(SimulatedCrash):
                through(again, plan)
            again.run(**UPSERT)
            assert found(again) == wanted, plan
            assert again.checkpoints()["landing"].generation == 2


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_give_the_rows_of_a_model(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    mode = chance.choice(["copy-on-write", "merge-on-read"])
    feed = IcebergFeed(tmp_path, new_target(ordering=("ts",)))
    model: dict[int, int] = {}
    for batch in range(6):
        rows = [
            row(chance.randrange(12), chance.randrange(40), gone=chance.random() < 0.2)
            for _ in range(chance.randrange(1, 12))
        ]
        feed.land(rows)
        feed.run(**UPSERT)
        last: dict[int, Row] = {}
        for item in rows:
            if item["ts"] >= last.get(item["id"], item)["ts"]:
                last[item["id"]] = item
        for number, item in last.items():
            if item["ts"] >= model.get(number, -1):
                model.pop(number, None)
                if not item["_hoodie_is_deleted"]:
                    model[number] = item["ts"]
        assert found(feed) == model
        if batch == 0:
            feed.lake().alter().set_properties({"write.merge.mode": mode}).commit()
