"""Changes of rows as Maxwell and Canal write them: rows, deletes, and what is neither."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.sources.kafka.change_events import TruncateError
from tideline.ingest.sources.kafka.declared import RecordField
from tideline.ingest.sources.kafka.decoded import Decoded
from tideline.ingest.sources.kafka.row_change_forms import CANAL, MAXWELL, RowChangeForm
from tideline.ingest.sources.kafka.row_changes import RowChanges

PAIR = pa.schema({"id": pa.int64(), "v": pa.string()})
TYPES = pa.schema(
    {
        "id": pa.int64(),
        "price": pa.decimal128(10, 2),
        "weight": pa.float64(),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "took": pa.string(),
        "seal": pa.binary(),
        "note": pa.string(),
    }
)
MOMENT = datetime(2016, 10, 21, 5, 33, 37, 523_000)


def of(form: RowChangeForm, *fields: RecordField, columns: pa.Schema = PAIR) -> RowChanges:
    return RowChanges(form, "shop.orders", columns, ("id",), fields)


def maxwell(kind: str, data: Any, old: Any = None, **more: Any) -> bytes:
    head = {"database": "shop", "table": "orders", "type": kind, "ts": 1_477_053_217, "xid": 23_396}
    before = {} if old is None else {"old": old}
    return json.dumps({**head, **more, "data": data, **before}).encode()


def canal(kind: str, data: Any, old: Any = None, **more: Any) -> bytes:
    types = {"id": "bigint", "v": "varchar(255)"}
    head = {"data": data, "database": "shop", "es": 1_589_373_560_000, "id": 9, "isDdl": False}
    rest = {"mysqlType": types, "old": old, "pkNames": ["id"], "sql": "", "table": "orders"}
    return json.dumps({**head, **rest, "ts": 1_589_373_560_798, "type": kind, **more}).encode()


def events(found: Decoded) -> list[tuple[int, dict[str, Any], str]]:
    """The number of the value of each row, the row, and whether it deletes."""
    rows = found.rows.to_pylist()
    return [
        (number, row, "delete" if at in found.deletes else "")
        for at, (number, row) in enumerate(zip(found.numbers, rows, strict=True))
    ]


def pair(number: int, text: str | None) -> dict[str, Any]:
    return {"id": number, "v": text}


def texts(number: int, text: str | None) -> dict[str, Any]:
    return {"id": str(number), "v": text}


def test_changes_of_maxwell_are_rows_and_deletes() -> None:
    found = of(MAXWELL).read(
        [
            maxwell("bootstrap-start", {}),
            maxwell("bootstrap-insert", pair(1, "copied"), xid=None),
            maxwell("insert", pair(2, "a"), commit=True),
            maxwell("update", pair(2, "b"), {"v": "a"}),
            maxwell("update", pair(5, "b"), {"id": 2}),
            maxwell("update", pair(5, None), {"v": "b"}),
            maxwell("delete", pair(1, "copied")),
            maxwell("bootstrap-complete", {}),
        ]
    )
    assert not found.faults
    assert events(found) == [
        (1, pair(1, "copied"), ""),
        (2, pair(2, "a"), ""),
        (3, pair(2, "b"), ""),
        (4, pair(2, "b"), "delete"),
        (4, pair(5, "b"), ""),
        (5, pair(5, None), ""),
        (6, pair(1, "copied"), "delete"),
    ]


def test_one_value_of_canal_has_many_rows() -> None:
    found = of(CANAL).read(
        [
            canal("INSERT", [texts(1, "a"), texts(2, None)]),
            canal("UPDATE", [texts(1, "b"), texts(2, "c")], [{"v": "a"}, {"v": None}]),
            canal("DELETE", [texts(1, "b"), texts(2, "c")]),
        ]
    )
    assert not found.faults
    assert events(found) == [
        (0, pair(1, "a"), ""),
        (0, pair(2, None), ""),
        (1, pair(1, "b"), ""),
        (1, pair(2, "c"), ""),
        (2, pair(1, "b"), "delete"),
        (2, pair(2, "c"), "delete"),
    ]


def test_of_rows_with_one_key_in_a_value_the_last_counts() -> None:
    """A statement that moves each key on: what one row leaves the next one takes."""
    moved = canal("UPDATE", [texts(3, "b"), texts(2, "a")], [{"id": "2"}, {"id": "1"}])
    found = of(CANAL).read([moved])
    assert events(found) == [
        (0, pair(3, "b"), ""),
        (0, pair(1, "a"), "delete"),
        (0, pair(2, "a"), ""),
    ]
    without_key = RowChanges(CANAL, "shop.orders", PAIR, ())
    assert len(without_key.read([canal("INSERT", [texts(1, "a")] * 3)]).numbers) == 3


def test_values_have_the_types_of_the_columns() -> None:
    data = {
        "id": 1,
        "price": 12.5,
        "weight": 4.2341,
        "at": "2016-10-21 05:33:37.523000",
        "local": "2016-10-21 05:33:37.523",
        "day": "2016-10-21",
        "took": "12:30:00",
        "seal": "/wD/",
        "note": "I am a creature of light.",
        "unknown": {"a": 1},
    }
    written = {name: str(value) for name, value in data.items()}
    written["seal"] = b"\xff\x00\xff".decode("iso-8859-1")
    expected = {
        **data,
        "price": Decimal("12.50"),
        "at": MOMENT.replace(tzinfo=UTC),
        "local": MOMENT,
        "day": date(2016, 10, 21),
        "seal": b"\xff\x00\xff",
    }
    del expected["unknown"]
    found = of(MAXWELL, columns=TYPES).read([maxwell("insert", data)])
    assert (found.faults, found.rows.to_pylist()) == ({}, [expected])
    found = of(CANAL, columns=TYPES).read([canal("INSERT", [written])])
    assert (found.faults, found.rows.to_pylist()) == ({}, [expected])
    assert found.rows.schema == TYPES
    nothing = dict.fromkeys(TYPES.names)
    for form, value in ((MAXWELL, maxwell("insert", nothing)), (CANAL, canal("INSERT", [nothing]))):
        assert of(form, columns=TYPES).read([value]).rows.to_pylist() == [nothing]


@pytest.mark.parametrize(
    ("column", "written"),
    [("at", "0000-00-00 00:00:00"), ("day", "0000-00-00"), ("price", "1.005"), ("id", "x"),
     ("id", "18446744073709551615"), ("seal", "\u20ac")],
)  # fmt: skip
def test_a_value_that_has_no_place_in_its_column_is_named(column: str, written: str) -> None:
    values = [canal("INSERT", [{"id": "1"}]), canal("INSERT", [{"id": "2"}, {column: written}])]
    found = of(CANAL, columns=TYPES).read(values)
    assert found.numbers == [0]
    assert f"column {column}: " in found.faults[1]


def test_tables_beside_it_may_have_anything() -> None:
    values = [
        maxwell("insert", {"id": "a text", "v": [1]}, table="customers"),
        maxwell("insert", {"id": {}, "v": 5}, database="test"),
        maxwell("insert", pair(1, "a")),
        maxwell("heartbeat", {}, table="customers"),
    ]
    found = of(MAXWELL).read(values)
    assert (found.numbers, found.faults) == ([2], {})
    values = [
        canal("INSERT", [{"id": 1, "v": []}], table="customers"),
        canal("TRUNCATE", None, table="customers", isDdl=True, sql="truncate customers"),
        canal("INSERT", [texts(1, "a")]),
    ]
    found = of(CANAL).read(values)
    assert (found.numbers, found.faults) == ([2], {})


def test_statements_that_change_tables_are_passed_over() -> None:
    columns = {"columns": [{"type": "int", "name": "id"}], "id": ["x"], "v": 1}
    values = [
        json.dumps({"type": kind, "database": "shop", "table": "orders", "old": columns,
                    "def": columns, "ts": 1_477_053_308_000, "sql": "alter"}).encode()
        for kind in ("table-create", "table-alter", "table-drop", "database-drop")
    ]  # fmt: skip
    found = of(MAXWELL).read(values)
    assert (found.numbers, found.faults) == ([], {})
    assert found.rows.schema == PAIR
    values = [
        canal(kind, None, isDdl=True, sql="alter table orders add a int")
        for kind in ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX")
    ]
    values += [
        canal("QUERY", None, sql="insert into orders values (1)"),
        canal("CREATE", None, isDdl=True, table=None, database=None),
    ]
    found = of(CANAL).read(values)
    assert (found.numbers, found.faults) == ([], {})


def test_a_truncate_stops_or_is_passed_over() -> None:
    values = [
        canal("INSERT", [texts(1, "a")]),
        canal("TRUNCATE", None, isDdl=True, sql="truncate table orders"),
    ]
    with pytest.raises(TruncateError) as caught:
        of(CANAL).read(values)
    assert caught.value.number == 1
    passing = RowChanges(CANAL, "shop.orders", PAIR, ("id",), passes_truncates=True)
    assert (passing.read(values).numbers, passing.read(values).faults) == ([0], {})


def test_what_is_no_change_is_a_fault_that_spoils_no_other() -> None:
    good = maxwell("insert", pair(1, "a"))
    found = of(MAXWELL).read(
        [
            *(b"{", good, b"{}", maxwell("merge", {}), maxwell("insert", None), b"[]", good),
            *(json.dumps({"id": 1, "v": "a"}).encode(), maxwell("insert", {"id": "x"})),
        ]
    )
    assert found.numbers == [1, 6]
    assert set(found.faults) == {0, 2, 3, 4, 5, 7, 8}
    assert found.faults[2] == found.faults[7] == "the value is no change of a table"
    assert found.faults[3] == "no operation of a change: 'merge'"
    assert found.faults[4] == "the event has no row"
    good = canal("INSERT", [texts(1, "a")])
    found = of(CANAL).read(
        [
            canal("INSERT", None),
            good,
            canal("INSERT", []),
            canal("INSERT", [texts(1, "a"), None]),
            canal("UPDATE", [texts(1, "a")], [{"v": "b"}, {"v": "c"}]),
            canal("INIT", [texts(1, "a")]),
            canal("INSERT", [pair(1, "a")]),
        ]
    )
    assert found.numbers == [1]
    assert [found.faults[at] for at in (0, 2, 3)] == ["the event has no row"] * 3
    assert "old values of other rows" in found.faults[4]
    assert found.faults[5] == "no operation of a change: 'INIT'"
    assert "id" in found.faults[6]


def test_the_order_of_maxwell_is_the_binlogs() -> None:
    fields = (
        RecordField.SEQUENCE,
        RecordField.TRANSACTION,
        RecordField.ORIGIN_TIME,
        RecordField.OPERATION,
    )

    def at(position: str | None, **more: Any) -> bytes:
        return maxwell("insert", pair(1, "a"), position=position, **more)

    values = [
        at("master.000006:800911", xoffset=0),
        at("master.000006:800911", xoffset=11),
        at("master.000006:800911", commit=True),
        at("master.000006:1800911"),
        at("master.000011:4"),
        at("bin.log.1000011:4", xid=None),
    ]
    found = of(MAXWELL, *fields).read([*values, at(None), at("nowhere")])
    sequences = found.rows.column("_event_seq").to_pylist()
    assert sequences[:6] == sorted(set(sequences[:6]))
    assert sequences[0] == "0000000006.00000000000000800911.0000000000"
    assert sequences[6:] == [None, None]
    first = found.rows.to_pylist()[0]
    assert (first["_event_tx_id"], first["_event_origin_ts_ms"]) == (23_396, 1_477_053_217_000)
    assert first["_change_operation_type"] == "insert"
    moved = of(MAXWELL, *fields).read(
        [maxwell("update", pair(2, "a"), {"id": 1}, position="b.1:5")]
    )
    assert moved.rows.column("_event_seq").to_pylist() == [f"{1:010d}.{5:020d}.{0:010d}"] * 2


def test_the_time_of_canal_is_the_statements() -> None:
    fields = (RecordField.ORIGIN_TIME, RecordField.OPERATION)
    found = of(CANAL, *fields).read([canal("INSERT", [texts(1, "a"), texts(2, "b")])])
    assert found.rows.column("_event_origin_ts_ms").to_pylist() == [1_589_373_560_000] * 2
    assert found.rows.column("_change_operation_type").to_pylist() == ["INSERT"] * 2
    assert of(CANAL, *fields).read([]).rows.schema.names == [
        *PAIR.names,
        *(f.value for f in fields),
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("form", [MAXWELL, CANAL], ids=["maxwell", "canal"])
def test_what_random_statements_leave_is_what_their_changes_leave(
    form: RowChangeForm, seed: int
) -> None:
    """Statements of a table are carried out here; their changes are applied one by one."""
    rng = random.Random(seed)
    table: dict[int, str | None] = {}
    values: list[bytes] = []
    for _ in range(60):
        count = rng.randrange(1, 4)
        kind = rng.choice(["insert", "update", "move", "delete"])
        changes: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
        for _ in range(count):
            present = sorted(table)
            number, text = rng.randrange(12), rng.choice([None, f"v{rng.random():.3f}"])
            if kind == "insert" and number not in table:
                table[number] = text
                changes.append((pair(number, text), None))
            elif kind == "update" and present:
                chosen = rng.choice(present)
                changes.append((pair(chosen, text), {"v": table[chosen]}))
                table[chosen] = text
            elif kind == "move" and present and number not in table:
                chosen = rng.choice(present)
                table[number] = table.pop(chosen)
                changes.append((pair(number, table[number]), {"id": chosen}))
            elif kind == "delete" and present:
                chosen = rng.choice(present)
                changes.append((pair(chosen, table.pop(chosen)), None))
        name = "update" if kind == "move" else kind
        if form is MAXWELL:
            values += [maxwell(name, row, old) for row, old in changes]
        elif changes:
            rows = [_spelled(row) for row, _ in changes]
            old = [_spelled(before) for _, before in changes if before is not None] or None
            values.append(canal(name.upper(), rows, old))
    found = of(form).read(values)
    assert not found.faults
    left: dict[int, str | None] = {}
    for _, row, deletes in events(found):
        left.pop(row["id"], None)
        if not deletes:
            left[row["id"]] = row["v"]
    assert left == table
    assert found.numbers == sorted(found.numbers)


def _spelled(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value is None else str(value) for name, value in row.items()}
