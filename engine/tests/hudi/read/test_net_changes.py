"""Net changes are the rows of an incremental read, and those that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest

from tideline.formats.row_changes import CHANGE_INSTANT, CHANGE_TYPE
from tideline.hudi.read import net_changes
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.incremental import plan_incremental
from tideline.hudi.read.point_in_time import BEGINNING
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.small_table import ONCE, QUIET, SmallTable, batch

KINDS = {
    "v6-cow": (6, TableType.COPY_ON_WRITE),
    "v9-mor": (9, TableType.MERGE_ON_READ),
}


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    version, kind = KINDS[request.param]
    made = SmallTable.in_memory(ordering=["v"], table_type=kind, table_version=version)
    yield made
    made.forget()


def do(table: SmallTable, operation: str, rows: pa.Table) -> None:
    table.fake_clock.advance(60)
    table.write(operation, rows, options=QUIET)


def newest(table: SmallTable) -> InstantTime:
    return table.lake().changes(BEGINNING).until


def said(table: SmallTable, after: InstantTime) -> set[tuple[str, str, int]]:
    rows = table.lake().net_changes(after).read_all().select([CHANGE_TYPE, "id", "v"]).to_pylist()
    found = [(row[CHANGE_TYPE], row["id"], row["v"]) for row in rows]
    assert len(set(found)) == len(found)
    return set(found)


def test_each_key_is_what_became_of_it(table: SmallTable) -> None:
    do(table, "insert", batch(range(6), 1))
    begin = newest(table)
    do(table, "upsert", batch([0, 1, 6, 7], 2))
    do(table, "delete", batch([1, 2, 7], 3))
    do(table, "upsert", batch([0, 2, 6], 4))
    do(table, "delete", batch([3], 5))
    do(table, "upsert", batch([7], 6))
    do(table, "delete", batch([7], 7))
    assert said(table, begin) == {
        ("UPDATE_AFTER", "k000", 4),
        ("DELETE", "k001", 2),
        ("UPDATE_AFTER", "k002", 4),
        ("DELETE", "k003", 1),
        ("INSERT", "k006", 4),
    }
    assert said(table, newest(table)) == set()


@pytest.mark.slow_with(
    "v6-cow-0-1",
    "v6-cow-1-100000",
    "v6-cow-2-100000",
    "v6-cow-2-1",
    "v6-cow-3-100000",
    "v9-mor-0-100000",
    "v9-mor-0-1",
    "v9-mor-1-100000",
    "v9-mor-1-1",
    "v9-mor-2-100000",
    "v9-mor-3-100000",
    "v9-mor-3-1",
)
@pytest.mark.parametrize("folded_at", [1, 100_000])
@pytest.mark.parametrize("seed", range(4))
def test_a_replica_of_any_moment_equals_the_table_after_them(
    table: SmallTable, seed: int, folded_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net_changes, "_FOLDED_AT_ROWS", folded_at)
    chance = Random(seed)
    states: list[tuple[InstantTime, dict[str, int]]] = [(BEGINNING, {})]
    for v in range(1, 10):
        operation = chance.choice(["upsert", "upsert", "delete", "insert_overwrite", "service"])
        if operation == "service":
            table.fake_clock.advance(60)
            table.lake().run(chance.choice(["compaction", "clustering"]), options=ONCE)
        else:
            do(table, operation, batch(chance.sample(range(16), chance.randint(1, 6)), v))
        states.append((newest(table), dict(table.values())))
    now = states[-1][1]
    for moment, rows in states:
        replica = dict(rows)
        for kind, key, v in said(table, moment):
            assert (kind == "INSERT") == (key not in rows)
            if kind == "DELETE":
                del replica[key]
            else:
                replica[key] = v
        assert replica == now
        written = [row for row in said(table, moment) if row[0] != "DELETE"]
        assert {(key, v) for _, key, v in written} == incremental(table, moment)


def incremental(table: SmallTable, after: InstantTime) -> set[tuple[str, int]]:
    hoodie = table.lake().hoodie_table
    scan = ArrowScan.of(hoodie, plan_incremental(hoodie, after), ["id", "v"])
    rows = pa.Table.from_batches(list(scan.batches()), scan.schema).to_pylist()
    return {(row["id"], row["v"]) for row in rows}


def test_a_range_that_ends_says_what_was_then(table: SmallTable) -> None:
    do(table, "insert", batch(range(4), 1))
    begin = newest(table)
    do(table, "delete", batch([0], 2))
    end = newest(table)
    do(table, "upsert", batch([0, 1], 3))
    found = table.lake().net_changes(begin, end)
    rows = found.read_all()
    assert rows.select([CHANGE_TYPE, "id"]).to_pylist() == [{CHANGE_TYPE: "DELETE", "id": "k000"}]
    assert rows.schema == found.schema
    assert found.until == end
    (instant,) = rows[CHANGE_INSTANT].to_pylist()
    assert table.lake().timeline().find(InstantTime(instant)) is not None


def test_a_row_that_moved_is_one_row_where_keys_are_unique_in_the_table() -> None:
    table = SmallTable.in_memory({"tideline.index.type": "GLOBAL_SIMPLE"}, ordering=["v"])
    do(table, "insert", batch([0, 1], 1))
    begin = newest(table)
    do(table, "upsert", batch([1], 2, partitions=1))
    rows = table.lake().net_changes(begin).read_all().select([CHANGE_TYPE, "part", "id"])
    assert rows.to_pylist() == [{CHANGE_TYPE: "UPDATE_AFTER", "part": "p0", "id": "k001"}]
    table.forget()
