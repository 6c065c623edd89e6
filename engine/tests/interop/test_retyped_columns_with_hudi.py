"""Columns whose type an ALTER of Hudi's changes in every way that its schema on read allows.

Files of Hudi's keep the old types, and rows of ours get the new ones. Both engines read the same
values while either writes, and after every file was rewritten. Hudi's bundle is the measure of how
a number becomes text or a decimal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tideline.testing.altered_table import COPY_ON_WRITE, MERGE_ON_READ, AlteredTable, Row
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]


@dataclass(frozen=True)
class Retyped:
    """A column before and after: literals of three rows, and what they are in the new type."""

    name: str
    old: str
    new: str
    literals: tuple[str, ...]
    values: tuple[Any, ...]
    ours: Any


def narrow(number: float) -> float:
    return float(np.float32(number))


INTS = ("7", "-3", "2147483647")
LONGS = ("7", "-3", "9007199254740993")
FLOATS = ("cast(1.1 as float)", "cast(1.0E10 as float)", "cast(1.5E-5 as float)")
DOUBLES = ("0.1D", "1.0E15D", "123456.78905D")
DATES = ("date'2020-02-29'", "date'1969-12-31'", "date'2038-01-20'")
DAYS = ("2020-02-29", "1969-12-31", "2038-01-20")
PRICES = ("1.10", "-9999.99", "0.00")
RETYPED = (
    Retyped("int_long", "int", "bigint", INTS, (7, -3, 2147483647), 2**40),
    Retyped("int_float", "int", "float", INTS, (7.0, -3.0, narrow(2147483647)), 0.5),
    Retyped("int_double", "int", "double", INTS, (7.0, -3.0, 2147483647.0), 0.1),
    Retyped("int_text", "int", "string", INTS, INTS, "seven"),
    Retyped("int_price", "int", "decimal(12,2)", INTS,
            tuple(Decimal(f"{text}.00") for text in INTS), Decimal("0.01")),
    Retyped("long_float", "bigint", "float", LONGS, (7.0, -3.0, narrow(2**53)), 0.5),
    Retyped("long_double", "bigint", "double", LONGS, (7.0, -3.0, float(2**53)), 0.1),
    Retyped("long_text", "bigint", "string", LONGS, LONGS, "seven"),
    Retyped("long_price", "bigint", "decimal(20,1)", LONGS,
            tuple(Decimal(f"{text}.0") for text in LONGS), Decimal("0.1")),
    Retyped("float_double", "float", "double", FLOATS, (1.1, 1.0e10, 1.5e-5), 0.1),
    Retyped("float_text", "float", "string", FLOATS, ("1.1", "1.0E10", "1.5E-5"), "some"),
    Retyped("float_price", "float", "decimal(22,10)", FLOATS,
            (Decimal("1.1000000000"), Decimal("10000000000.0000000000"), Decimal("0.0000150000")),
            Decimal("0.0000000001")),
    Retyped("double_text", "double", "string", DOUBLES, ("0.1", "1.0E15", "123456.78905"), "some"),
    Retyped("double_price", "double", "decimal(24,4)", DOUBLES,
            (Decimal("0.1000"), Decimal("1000000000000000.0000"), Decimal("123456.7891")),
            Decimal("0.0001")),
    Retyped("text_date", "string", "date", tuple(f"'{day}'" for day in DAYS),
            tuple(map(date.fromisoformat, DAYS)), date(2026, 11, 22)),
    Retyped("text_price", "string", "decimal(10,3)", ("'12.345'", "'-0.0005'", "'7'"),
            (Decimal("12.345"), Decimal("-0.001"), Decimal("7.000")), Decimal("0.001")),
    Retyped("text_bytes", "string", "binary", ("'a'", "''", "'\u00e9'"),
            (b"a", b"", "\u00e9".encode()), b"\x00\xff"),
    Retyped("bytes_text", "binary", "string", ("X'61'", "X''", "X'C3A9'"), ("a", "", "\u00e9"),
            "some"),
    Retyped("date_text", "date", "string", DATES, DAYS, "a day"),
    Retyped("price_wider", "decimal(6,2)", "decimal(12,2)", PRICES, tuple(map(Decimal, PRICES)),
            Decimal("1234567890.12")),
    Retyped("price_finer", "decimal(6,2)", "decimal(20,4)", PRICES,
            tuple(Decimal(f"{text}00") for text in PRICES), Decimal("0.0001")),
    Retyped("price_text", "decimal(6,2)", "string", PRICES, PRICES, "dear"),
)  # fmt: skip


@pytest.mark.parametrize("kind", [COPY_ON_WRITE, MERGE_ON_READ])
def test_both_engines_read_the_same_values_of_retyped_columns(
    spark: SparkSession, altering: HudiPeer, tmp_path: Path, kind: str
) -> None:
    table = AlteredTable(tmp_path / "t", spark, altering, kind, f"retyped_{kind}")
    table.create(", ".join(f"{item.name} {item.old}" for item in RETYPED))
    rows = ", ".join(literals(number) for number in range(6))
    table.sql(f"insert into {{t}} values {rows}")
    if kind == MERGE_ON_READ:
        # In logs of the first version, too.
        table.sql(f"insert into {{t}} values {literals(4)}, {literals(5)}")
    for item in RETYPED:
        table.sql(f"alter table {{t}} alter column {item.name} type {item.new}")
    table.model = {f"k{number}": stored(number) for number in range(6)}
    table.check()

    table.upsert(ours(table, 0), ours(table, 3), ours(table, 6))
    table.check()
    table.sql("update {t} set ts = 3 where id in ('k1', 'k2')")
    table.model["k1"]["ts"] = table.model["k2"]["ts"] = 3
    table.check()
    table.cluster_or_compact()
    table.check()
    table.sql("update {t} set int_text = 'hudi', ts = 4 where id in ('k0', 'k5')")
    for key in ("k0", "k5"):
        table.model[key] |= {"int_text": "hudi", "ts": 4}
    table.check()
    table.upsert(ours(table, 4, ts=5))
    table.check()


def literals(number: int) -> str:
    columns = ", ".join(item.literals[number % 3] for item in RETYPED)
    return f"('k{number}', {columns}, 1, '{region(number)}')"


def stored(number: int) -> Row:
    values = {item.name: item.values[number % 3] for item in RETYPED}
    return {"id": f"k{number}", **values, "ts": 1, "region": region(number)}


def ours(table: AlteredTable, number: int, ts: int = 2) -> Row:
    """A row of values that only the new types have; 3 keeps its converted ones."""
    if number == 3:
        return {**table.model["k3"], "ts": ts}
    values = {item.name: item.ours for item in RETYPED}
    return {"id": f"k{number}", **values, "ts": ts, "region": region(number)}


def region(number: int) -> str:
    return "north" if number % 2 else "south"
