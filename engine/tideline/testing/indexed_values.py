"""Columns of a table that has every index, their values, and conditions on them in SQL.

Of each type there are some values that engines order, bound or spell in their own ways. What Hudi
itself answers wrongly of its own tables is left out: NaN, LIKE, conditions on a zero with a sign,
and bytes above 127, which it orders by their sign in logs.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

_UTC = dt.UTC
_STRUCT = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "v": (pa.int64(), (-(2**63), -3, 0, 1, 2, 5, 2**53 + 1, 2**63 - 1)),
    "i": (pa.int32(), (None, -(2**31), -1, 0, 7, 2**31 - 1)),
    "d": (pa.float64(), (None, 0.0, -0.0, 1.5, -2.25, 1e300, -1e300, 5e-324, float("inf"))),
    "f": (pa.float32(), (None, 0.0, -0.0, 0.5, -1.5, float("-inf"))),
    "small": (pa.decimal128(5, 2), (None, Decimal("-1.50"), Decimal("0.00"), Decimal("999.99"))),
    "amount": (
        pa.decimal128(20, 4),
        (None, Decimal("-0.0001"), Decimal("12.5000"), Decimal("-9999999999999999.9999")),
    ),
    "huge": (
        pa.decimal128(38, 10),
        (None, Decimal("-1E-10"), Decimal("1234567890123456789012345678.0000000001"), Decimal(-7)),
    ),
    "s": (
        pa.string(),
        (None, "", "a", "A", " b", "é", "zz", "a" * 90, "NULL", "0", "100%", "q'r", "\uffee"),
    ),
    "b": (pa.bool_(), (None, True, False)),
    "day": (
        pa.date32(),
        (
            None,
            dt.date(1900, 1, 2),
            dt.date(1969, 12, 31),
            dt.date(1970, 1, 1),
            dt.date(2099, 1, 1),
        ),
    ),
    "at": (
        pa.timestamp("us", "UTC"),
        (
            None,
            dt.datetime(1900, 1, 2, 3, 4, 5, 6, tzinfo=_UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=_UTC),
            dt.datetime(1970, 1, 1, tzinfo=_UTC),
            dt.datetime(2024, 3, 10, 7, 30, 0, 1, tzinfo=_UTC),
        ),
    ),
    "bin": (pa.binary(), (None, b"", b"\x00", b"a", b"\x7f~")),
    "n": (_STRUCT, (None, {"x": None, "y": "a"}, {"x": -1, "y": None}, {"x": 4, "y": "é"})),
    "l": (pa.list_(pa.int32()), (None, [], [1], [1, -2])),
}
"""By name the type and what is stored."""
KEYS = ("k", "a:b", "клю", "x y", "a/b", "%41", "a,b", "é", "K$", "q'", "__", "z|", "{}", "🙂")
"""How keys begin."""
PARTITIONS: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "string": (pa.string(), ("a", "B b", "é", "x-y_z", "0012", "1=2")),
    "int": (pa.int32(), (0, -1, 7)),
    "bigint": (pa.int64(), (-(10**12), 0, 5)),
    "date": (pa.date32(), (dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2099, 1, 1))),
    "boolean": (pa.bool_(), (True, False)),
    "decimal(12,3)": (pa.decimal128(12, 3), (Decimal("-1.500"), Decimal("0.000"))),
}
"""By Spark's name of the type of a partition column its values."""
NESTED = {"n.x": (-1, 4), "n.y": ("a", "é")}
_COMPARED = ("=", "<", ">", "<=", ">=", "<>")


def literal(value: Any) -> str:
    """A value in Spark's SQL, and in ours."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return f"timestamp'{value:%Y-%m-%d %H:%M:%S.%f}+00:00'"
    if isinstance(value, dt.date):
        return f"date'{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"double('{value}')"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{value}L" if abs(value) >= 2**31 else str(value)


def conditions(
    chance: random.Random, rows: Sequence[Row], names: Sequence[str], added: Sequence[str] = ()
) -> Iterator[str]:
    """Conditions on these columns, by values that are stored or could be, without end.

    Those that were added are asked about alone: where files have statistics of another column and
    none of one, Hudi leaves them out.
    """
    pools, later = _pools(names), _pools(added)
    while True:
        yield (
            _simple(chance, later)
            if later and chance.random() < 0.1
            else _condition(chance, rows, pools)
        )


def _pools(names: Sequence[str]) -> dict[str, list[Any]]:
    return {
        name: [v for v in COLUMNS[name][1] if v is not None and str(v) != "-0.0"] for name in names
    }


def _condition(
    chance: random.Random, rows: Sequence[Row], pools: Mapping[str, Sequence[Any]]
) -> str:
    kind = chance.randrange(10)
    if kind == 0 and rows:
        keys = ", ".join(literal(row["id"]) for row in chance.sample(rows, min(2, len(rows))))
        return f"{chance.choice(('id', '_hoodie_record_key'))} in ({keys})"
    if kind == 1 and "n" in pools:
        name, pool = chance.choice(list(NESTED.items()))
        return f"{name} {chance.choice(_COMPARED)} {literal(chance.choice(pool))}"
    if kind == 2:
        return " and ".join(_simple(chance, pools) for _ in range(2))
    if kind == 3:
        return f"({_simple(chance, pools)} or {_simple(chance, pools)})"
    if kind == 4:
        return f"not ({_simple(chance, pools)})"
    return _simple(chance, pools)


def _simple(chance: random.Random, pools: Mapping[str, Sequence[Any]]) -> str:
    name = chance.choice(list(pools))
    values = pools[name]
    kind = chance.randrange(8)
    if kind == 0 or name in ("n", "l"):
        return f"{name} is {chance.choice(('', 'not '))}null"
    if kind == 1:
        some = chance.sample(values, min(2, len(values)))
        return f"{name} in ({', '.join(map(literal, some))})"
    if kind == 2:
        return f"{name} <=> {literal(chance.choice(values))}"
    return f"{name} {chance.choice(_COMPARED)} {literal(chance.choice(values))}"
