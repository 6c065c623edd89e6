"""Values of Postgres of all common types, unchanged large ones, and columns that come and go."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import Outcome
from tideline.ingest.sources.postgres.text_values import read_values
from tideline.testing.postgres_feed import PostgresFeed
from tideline.testing.postgres_server import PostgresDatabase

pytestmark = pytest.mark.postgres

ALL_TYPES = """create table everything (
  id uuid primary key, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(20,4), b bool,
  t text, vc varchar(10), d date, ts timestamp, tz timestamptz, ti time, j json, jb jsonb, by bytea,
  ia int[], ta text[], iv interval)"""
TYPES = {
    "id": "string", "i2": "int", "i4": "int", "i8": "long", "f4": "float", "f8": "double",
    "n": "decimal(20,4)", "b": "boolean", "t": "string", "vc": "string", "d": "date",
    "ts": "timestamp_ntz", "tz": "timestamp", "ti": "string", "j": "string", "jb": "string",
    "by": "binary", "ia": "array<int>", "ta": "array<string>", "iv": "string",
}  # fmt: skip
VALUES = """insert into everything values (
  '0b7a0f7e-2a51-4a7c-9c55-0f6f2f1b8d10', -32768, 2147483647, -9223372036854775808, 1.5e-7, 'NaN',
  -12345.6789, true, E'a "quoted",\\n\\\\ line \u00fc', '', '2026-11-28',
  '2026-11-28 10:00:00.123456',
  '2026-11-28 10:00:00.5+02', '10:00', '{"a" : 1}', '{"a": [1, null]}', '\\x00ff', '{1,NULL,3}',
  E'{"a,b","c\\\\"d",NULL,"NULL",e}', '1 day 2 hours')"""
NULLS = "insert into everything (id) values ('0b7a0f7e-2a51-4a7c-9c55-0f6f2f1b8d11')"
EXPECTED: dict[str, Any] = {
    "id": "0b7a0f7e-2a51-4a7c-9c55-0f6f2f1b8d10",
    "i2": -32768, "i4": 2147483647, "i8": -9223372036854775808, "f4": pytest.approx(1.5e-7),
    "f8": pytest.approx(float("nan"), nan_ok=True), "n": Decimal("-12345.6789"), "b": True,
    "t": 'a "quoted",\n\\ line \u00fc', "vc": "", "d": date(2026, 11, 28),
    "ts": datetime(2026, 11, 28, 10, 0, 0, 123456),
    "tz": datetime(2026, 11, 28, 8, 0, 0, 500000, tzinfo=UTC), "ti": "10:00:00",
    "j": '{"a" : 1}', "jb": '{"a": [1, null]}', "by": b"\x00\xff", "ia": [1, None, 3],
    "ta": ["a,b", 'c"d', None, "NULL", "e"], "iv": "P1DT2H",
}  # fmt: skip


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "found"])
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "changed"])
def test_values_of_all_common_types_arrive(
    declared: bool, copied: bool, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    found = PostgresFeed.of(tmp_path, postgres, "everything")
    if declared:
        found = found.typed(**TYPES)
    postgres.execute(ALL_TYPES)
    if not copied:
        found.drain()
    postgres.execute(VALUES, NULLS)
    found.drain()
    first, second = found.rows(*TYPES)
    assert dict(zip(TYPES, first, strict=True)) == EXPECTED
    assert all(value is None for value in second[1:])


@pytest.mark.parametrize(
    ("text", "kind"),
    [("infinity", pa.timestamp("us")), ("0044-03-15 BC", pa.date32()), ("x", pa.bool_()),
     ("3000000000", pa.int32()), ("NaN", pa.decimal128(5, 2)), ("1.555", pa.decimal128(5, 2)),
     ("{{1,2},{3,4}}", pa.list_(pa.int32())), ("[0:1]={1,2}", pa.list_(pa.int32()))],
)  # fmt: skip
def test_a_value_that_a_column_cannot_have_is_bad_and_others_are_not(
    text: str, kind: pa.DataType
) -> None:
    values = pa.array([None, text, None], pa.string())
    found, bad = read_values(values, kind, 25, "c")
    assert list(bad) == [1]
    assert bad[1].startswith(f"{text!r} is no {kind}")
    assert found.to_pylist() == [None] * 3


LARGE = "create table orders (id bigint primary key, v text, n int)"
BIG = "(select string_agg(md5(g::text), '{0}') from generate_series(1, 400) g)"


def orders(folder: Path, database: PostgresDatabase, **declared: Any) -> PostgresFeed:
    return PostgresFeed.of(folder, database, **declared).typed(id="long", v="string", n="int")


def planned(found: PostgresFeed) -> Operation:
    operation = found.plan()
    assert isinstance(operation, Operation), operation
    return operation


@pytest.mark.parametrize("is_full", [False, True])
def test_large_values_that_did_not_change_are_kept(
    is_full: bool, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        LARGE,
        "alter table orders alter v set storage external",
        f"insert into orders select g, {BIG.format('x')} || g, 0 from generate_series(1, 6) g",
    )
    if is_full:
        postgres.execute("alter table orders replica identity full")
    found = orders(tmp_path, postgres)
    found.drain()
    postgres.execute(
        "update orders set n = 1 where id = 1",
        # The value is in the log before, then unchanged, then of another key.
        f"update orders set v = {BIG.format('y')} where id = 2",
        "update orders set n = 2 where id = 2",
        "update orders set id = 20 where id = 2",
        "update orders set n = 3 where id = 20",
        # Another row comes under the key of one that is gone.
        "delete from orders where id = 3",
        "update orders set id = 3 where id = 4",
        "update orders set n = 4 where id = 5",
        "delete from orders where id = 5",
    )
    assert found.drain() is None
    rows = postgres.execute("select id, v, n from orders order by id")
    assert found.rows("id", "v", "n") == rows
    assert [row[0] for row in rows] == [1, 3, 6, 20]
    assert len(rows[0][1]) > 10_000


def test_a_large_value_that_changes_behind_the_range_arrives_with_its_change(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(
        LARGE, f"insert into orders select g, {BIG.format('x')}, 0 from generate_series(1, 3) g"
    )
    found = orders(tmp_path, postgres)
    found.drain()
    postgres.execute("update orders set n = n + 1")
    operation = planned(found)
    postgres.execute(
        f"update orders set v = {BIG.format('z')}, n = 7 where id = 1",
        "delete from orders where id = 2",
        "update orders set id = 30 where id = 3",
    )
    assert found.execute(operation).exit_code == 0
    # Rows that are gone keep what they had until the log says so.
    assert [row[0] for row in found.rows("id", "n")] == [1, 2, 3]
    assert found.drain() is None
    assert found.rows("id", "v", "n") == postgres.execute("select id, v, n from orders order by id")


def test_columns_are_added_dropped_and_get_other_types(
    postgres: PostgresDatabase, tmp_path: Path
) -> None:
    postgres.execute(LARGE, "insert into orders values (1, 'a', 1)")
    found = orders(tmp_path, postgres)
    found.drain()
    postgres.execute(
        "insert into orders values (2, 'b', 2)",
        "alter table orders add column extra int default 7",
        "insert into orders values (3, 'c', 3, 9)",
        "alter table orders alter n type bigint",
        "insert into orders values (4, 'd', 4, 9)",
        "alter table orders drop column v",
        "insert into orders values (5, 5, 9)",
    )
    assert found.drain() is None
    assert found.rows("id", "v", "n") == [
        (1, "a", 1), (2, "b", 2), (3, "c", 3), (4, "d", 4), (5, None, 5)
    ]  # fmt: skip


def test_a_key_column_that_is_gone_is_named(postgres: PostgresDatabase, tmp_path: Path) -> None:
    postgres.execute(LARGE)
    found = orders(tmp_path, postgres)
    found.drain()
    postgres.execute(
        "alter table orders rename id to number", "insert into orders values (1, 'a', 1)"
    )
    result = found.execute(planned(found))
    assert result.outcome is Outcome.FAILED
    assert "recordKey is id, and rows of orders are known by number" in result.message
