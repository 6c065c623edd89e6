"""Which row of a key stays in an upsert, and which of its values are those of the row before."""

from __future__ import annotations

import math
import random
import uuid
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.clock import SystemClock
from tideline.commit_report import CommitReport
from tideline.errors import ConfigError, InvalidDataError
from tideline.iceberg.write.write_operation import IcebergOperation
from tideline.iceberg.write.write_request import IcebergWrite, UpsertRules
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.iceberg_writing import write_iceberg

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("ts", pa.float64()), ("more", pa.int32())]
)
RULES = UpsertRules(("ts", "more"), "gone")
NAN = math.nan
MODES = ("copy-on-write", "merge-on-read")


def created(mode: str = MODES[0], columns: pa.Schema = COLUMNS) -> IcebergLakeTable:
    uri = f"memory://{uuid.uuid4().hex}/table"
    properties = {"write.merge.mode": mode}
    return tideline.create_iceberg(uri, columns, key="id", properties=properties)


def merge(table: IcebergLakeTable, *rows: tuple[Any, ...], rules: Any = RULES) -> CommitReport:
    names = ("id", "ts", "more", "gone")
    given = [dict(zip(names, row, strict=False)) for row in rows]
    columns = pa.schema([*COLUMNS, ("gone", pa.bool_())])
    write = IcebergWrite.asked("upsert", rules=rules)
    return write_iceberg(
        table.table, pa.Table.from_pylist(given, schema=columns), write, SystemClock()
    )


def stored(table: IcebergLakeTable) -> dict[int, Any]:
    rows = table.to_arrow().sort_by("id").to_pylist()
    return {row["id"]: (row["ts"], row["more"]) for row in rows}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("before", "given", "after"),
    [
        ([(1, 5, 1)], [(1, 5, 0)], {1: (5, 1)}),
        ([(1, 5, 1)], [(1, 5, 2), (1, 4, 9)], {1: (5, 2)}),
        ([(1, 5, 1)], [(1, NAN, 0)], {1: (NAN, 0)}),
        ([(1, NAN, 1)], [(1, 9, 9)], {1: (NAN, 1)}),
        ([(1, NAN, 1)], [(1, NAN, 1)], {1: (NAN, 1)}),
        # A delete without an order takes out all that was before it, and nothing that comes later.
        ([(1, 5, 1)], [(1, None, None, True)], {}),
        ([(1, 5, 1)], [(1, 9, 9), (1, None, None, True)], {}),
        ([(1, 5, 1)], [(1, None, None, True), (1, 2, 2)], {1: (2, 2)}),
        ([(1, 5, 1)], [(1, 9, None, True), (1, 2, 2)], {1: (2, 2)}),
        ([(1, 5, 1)], [(1, 4, 9, True)], {1: (5, 1)}),
        ([(1, 5, 1)], [(1, 6, 0, True), (1, 5, 9)], {}),
    ],
)
def test_the_greater_row_stays(
    mode: str, before: list[Any], given: list[Any], after: dict[int, Any]
) -> None:
    table = created(mode)
    merge(table, *before)
    merge(table, *given)
    assert repr(stored(table)) == repr({key: (float(ts), n) for key, (ts, n) in after.items()})


def test_rows_are_counted_once() -> None:
    table = created()
    assert merge(table, (1, 1, 1), (1, 2, 1), (2, 1, 1), (3, 1, 1)).rows_inserted == 3
    report = merge(table, (1, 9, 1), (2, 0, 1), (3, 9, 1, True), (4, 1, 1), (5, 1, 1, True))
    assert (report.rows_inserted, report.rows_updated, report.rows_deleted) == (1, 1, 1)
    assert set(stored(table)) == {1, 2, 4}


def test_a_row_that_is_passed_over_changes_no_file() -> None:
    table = created()
    merge(table, (1, 5, 1))
    report = merge(table, (1, 4, 1))
    assert (report.rows_updated, report.files_written) == (0, 0)


def test_a_stored_row_without_an_order_is_the_least() -> None:
    table = created()
    table.write([{"id": 1, "ts": None, "more": None}])
    merge(table, (1, -math.inf, -1))
    assert stored(table) == {1: (-math.inf, -1)}


def test_a_row_without_an_order_is_refused() -> None:
    table = created()
    with pytest.raises(InvalidDataError, match="an ordering value is null"):
        merge(table, (1, 1, None))
    assert stored(table) == {}


def test_a_row_that_deletes_needs_its_key_alone() -> None:
    columns = pa.schema([*COLUMNS, pa.field("must", pa.string(), nullable=False)])
    table = created(columns=columns)
    table.write([{"id": 1, "ts": 1, "more": 1, "must": "x"}])
    merge(table, (1, 2, 1, True))
    assert stored(table) == {}
    with pytest.raises(InvalidDataError, match="a required column has nulls"):
        merge(table, (2, 1, 1))


def test_the_flag_may_be_a_column_of_the_table() -> None:
    table = created(columns=pa.schema([*COLUMNS, ("gone", pa.bool_())]))
    merge(table, (1, 1, 1, False), (2, 1, 1, None), (3, 1, 1, True))
    assert table.to_arrow(["id", "gone"]).to_pydict() == {"id": [1, 2], "gone": [False, None]}


def test_a_required_value_may_be_that_of_the_row_before_and_no_null() -> None:
    table = created(columns=pa.schema([*COLUMNS, pa.field("must", pa.string(), nullable=False)]))
    rules = UpsertRules((), "gone", GONE)
    write = IcebergWrite.asked("upsert", rules=rules)
    rows = pa.table({"id": [1, 1], "must": [None, GONE], "gone": [False, False]})
    with pytest.raises(InvalidDataError, match="a required column has nulls"):
        write_iceberg(table.table, rows, write, SystemClock())


@pytest.mark.parametrize(
    ("operation", "rules", "message"),
    [
        (IcebergOperation.UPSERT, UpsertRules(("nope",)), "the table has no such column to decide"),
        (IcebergOperation.UPSERT, UpsertRules(("many",)), "is in no order to decide by"),
        (IcebergOperation.UPSERT, UpsertRules((), "ts"), "which rows delete is no boolean"),
        (IcebergOperation.APPEND, RULES, "what decides between rows is for upserts"),
    ],
)
def test_rules_that_cannot_be(
    operation: IcebergOperation, rules: UpsertRules, message: str
) -> None:
    columns = pa.schema([*COLUMNS, ("many", pa.list_(pa.int64()))])
    with pytest.raises(ConfigError, match=message):
        write_iceberg(
            created(columns=columns).table,
            [{"id": 1}],
            IcebergWrite(operation, rules=rules),
            SystemClock(),
        )


TEXTS = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.binary())])
GONE = "(gone)"
KEEPING = UpsertRules((), "gone", GONE)


def texts(mode: str) -> IcebergLakeTable:
    uri = f"memory://{uuid.uuid4().hex}/table"
    properties = {"write.merge.mode": mode}
    version = random.Random(mode).choice([2, 3])
    return tideline.create_iceberg(
        uri, TEXTS, key="id", properties=properties, format_version=version
    )


def keep(table: IcebergLakeTable, *rows: tuple[Any, ...]) -> CommitReport:
    given = [
        {"id": number, "a": a, "b": None if b is None else b.encode(), "gone": any(more)}
        for number, a, b, *more in rows
    ]
    columns = pa.schema([*TEXTS, ("gone", pa.bool_())])
    write = IcebergWrite.asked("upsert", rules=KEEPING)
    return write_iceberg(
        table.table, pa.Table.from_pylist(given, schema=columns), write, SystemClock()
    )


def kept(table: IcebergLakeTable) -> dict[int, Any]:
    rows = table.to_arrow().to_pylist()
    return {row["id"]: (row["a"], row["b"] and row["b"].decode()) for row in rows}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("given", "after"),
    [
        ([(1, GONE, "n")], ("x", "n")),
        ([(1, "n", GONE), (1, GONE, "m")], ("n", "m")),
        ([(1, GONE, "n"), (1, GONE, GONE)], ("x", "n")),
        ([(1, None, None), (1, GONE, GONE)], (None, None)),
        # What was deleted is not what the row had before.
        ([(1, None, None, True), (1, "n", GONE)], ("n", GONE)),
        ([(1, "p", "q", True), (1, "n", "m"), (1, GONE, "o")], ("n", "o")),
        ([(2, GONE, "n"), (1, "n", "m")], ("n", "m")),
    ],
)
def test_values_that_were_not_available_stay(
    mode: str, given: list[Any], after: tuple[Any, Any]
) -> None:
    table = texts(mode)
    keep(table, (1, "x", "y"))
    keep(table, *given)
    found = kept(table)
    assert found.pop(1) == after
    assert found in ({}, {2: (GONE, "n")}), "of a row that is new nothing is known"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(4))
def test_any_changes_leave_what_each_alone_would(mode: str, seed: int) -> None:
    chance = random.Random(seed)
    table, model = texts(mode), dict[int, tuple[Any, Any]]()
    for number in range(200):
        model[number] = (f"a{number}", f"b{number}")
    keep(table, *((number, *row) for number, row in model.items()))
    for batch in range(4):
        rows: list[tuple[Any, ...]] = []
        for _ in range(chance.choice([3, 300])):
            number = chance.randrange(250)
            values = [chance.choice([GONE, None, f"{batch}-{chance.random()}"]) for _ in "ab"]
            if number not in model:
                values = [f"new{batch}", None]
            is_delete = chance.random() < 0.2
            rows.append((number, *values, is_delete))
            before = model.pop(number, (None, None))
            if not is_delete:
                now = [old if new == GONE else new for old, new in zip(before, values, strict=True)]
                model[number] = (now[0], now[1])
        keep(table, *rows)
        assert kept(table) == model


ORDERED = pa.schema([("id", pa.int64()), ("ts", pa.int64()), ("a", pa.string())])
Ordered = tuple[int, int, str | None, bool]


def each_alone(model: dict[int, tuple[int, Any]], given: list[Ordered]) -> None:
    """Changes of one batch, each as a commit of its own; those of a key by their order."""
    for number, ts, value, is_delete in sorted(given, key=lambda row: row[1]):
        if number in model and model[number][0] > ts:
            continue
        before = model.pop(number, (0, GONE))[1]
        if not is_delete:
            model[number] = (ts, before if value == GONE else value)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_values_stay_that_come_between_by_their_order(mode: str, seed: int) -> None:
    chance = random.Random(seed)
    properties = {"write.merge.mode": mode}
    uri = f"memory://{uuid.uuid4().hex}/table"
    table = tideline.create_iceberg(
        uri, ORDERED, key="id", properties=properties, format_version=chance.choice([2, 3])
    )
    write = IcebergWrite.asked("upsert", rules=UpsertRules(("ts",), "gone", GONE))
    model: dict[int, tuple[int, Any]] = {}
    for batch in range(6):
        given: list[Ordered] = [
            (
                number,
                chance.randrange(9),
                chance.choice([GONE, None, f"{batch}"]),
                chance.random() < 0.3,
            )
            for number in (chance.randrange(40) for _ in range(60))
        ]
        each_alone(model, given)
        rows = pa.Table.from_pylist(
            [dict(zip(("id", "ts", "a", "gone"), row, strict=True)) for row in given],
            schema=pa.schema([*ORDERED, ("gone", pa.bool_())]),
        )
        write_iceberg(table.table, rows, write, SystemClock())
        found = {row["id"]: (row["ts"], row["a"]) for row in table.to_arrow().to_pylist()}
        assert found == model
