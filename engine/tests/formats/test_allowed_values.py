"""The values that a condition allows are those of the rows that it selects."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tideline.formats.allowed_values import VALUES_MAX, allowed_values
from tideline.formats.row_filter import RowFilter

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("i", pa.int32()), ("f", pa.float64())])
ID, N, SMALL = pc.field("id"), pc.field("n"), pc.field("i")


@pytest.mark.parametrize(
    ("condition", "column", "allowed"),
    [
        ("id = 'a'", "id", ["a"]),
        ("id in ('b', 'a', 'é')", "id", ["a", "b", "é"]),
        ("id = 'b' or id = 'a'", "id", ["a", "b"]),
        ("id = 'a' and n > 4", "id", ["a"]),
        ("id in ('a', 'b') and id <> 'a'", "id", ["b"]),
        ("id = 'a' and id = 'b'", "id", []),
        ("id >= 'a' and id <= 'a'", "id", ["a"]),
        ("not (id <> 'a')", "id", ["a"]),
        ("i = 5 or i in (-7, 9)", "i", [-7, 5, 9]),
        ([("n", "in", [3, 5])], "n", [3, 5]),
        ([[("n", "=", 3)], [("n", "=", 4), ("id", "=", "a")]], "n", [3, 4]),
        (ID.isin(["a", "b"]) & ID.is_valid(), "id", ["a", "b"]),
        (pa.scalar(5) == N, "n", [5]),
        ("id = 'a' or n = 3", "id", None),
        ("id > 'a'", "id", None),
        ("id like 'a%'", "id", None),
        ("id is null or id = 'a'", "id", None),
        (ID.isin(["a", None]), "id", None),
        ("id is null", "id", None),
        ("not (id = 'a')", "id", None),
        (SMALL + 1 == 5, "i", None),
        ("f = 1.5", "f", None),
        ("n = 5", "id", None),
        (f"id = 'a' and n in ({', '.join(map(str, range(60)))})", "id", ["a"]),
        (ID.isin(["a"]) & N.isin(range(100_000)), "id", ["a"]),
        # 2**53 and 2**53 + 1 are one floating number.
        (N.cast("double", safe=False) == 2**53, "n", None),
        (SMALL.cast("float", safe=False) == 2.0**24, "i", None),
        (N.cast("double", safe=False) == 5, "n", [5]),
        (N == 2**63 - 1, "n", [2**63 - 1]),
        (ID.isin([f"k{number}" for number in range(VALUES_MAX)]), "id", VALUES_MAX),
        (ID.isin([f"k{number}" for number in range(VALUES_MAX + 1)]), "id", None),
    ],
    ids=lambda given: str(given)[:50],
)
def test_values_are_named(condition: Any, column: str, allowed: Any) -> None:
    found = allowed_values(RowFilter.of(condition, SCHEMA), column)
    assert (len(found) if found and isinstance(allowed, int) else found) == allowed


def test_rows_of_random_conditions_have_no_other_values() -> None:
    chosen = random.Random(20261127)
    rows = pa.record_batch(
        [[*range(8), None], [1, 1, 2, 2, None, 5, None, 9, None]], names=["n", "i"]
    ).cast(pa.schema([("n", pa.int64()), ("i", pa.int32())]))
    named = 0
    for _ in range(2_000):
        condition = _condition(chosen)
        row_filter = RowFilter.of(condition, rows.schema)
        for name in rows.schema.names:
            found = allowed_values(row_filter, name)
            if found is not None:
                named += 1
                assert set(row_filter.selected(rows)[name].to_pylist()) <= set(found), condition
    assert named > 200


def _condition(chosen: random.Random) -> pc.Expression:
    column = pc.field(chosen.choice(["n", "i"]))
    value = chosen.randrange(9)
    found = chosen.choice(
        [
            column == value,
            column == value,
            column != value,
            column < value,
            column >= value,
            column.isin([value, value + 2]),
            column.is_null(),
            column.is_valid(),
        ]
    )
    if chosen.random() < 0.5:
        other = _condition(chosen)
        found = chosen.choice([found & other, found & other, found | other, found & ~other])
    return found
