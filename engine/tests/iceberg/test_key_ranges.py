"""Ranges of keys leave out no row that has one of them, and a key is always in one bucket."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tideline.iceberg.write.key_bucket import bucket_numbers, divided
from tideline.iceberg.write.key_ranges import KeyRange, ranges_filter

DAY = dt.date(2026, 1, 1)
MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MANY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [n * 7 - 400 for n in range(250)]),
    "long": (pa.int64(), [n * 2**40 - 2**45 for n in range(250)]),
    "string": (pa.string(), [f"k{n * 31 % 250}ü" for n in range(250)]),
    "binary": (pa.binary(), [bytes([n, n % 3]) for n in range(250)]),
    "fixed": (pa.binary(16), [uuid.UUID(int=n << 120).bytes for n in range(250)]),
    "decimal": (pa.decimal128(9, 2), [Decimal(n - 100) / 4 for n in range(250)]),
    "date": (pa.date32(), [DAY + dt.timedelta(days=n) for n in range(250)]),
    "time": (pa.time64("us"), [dt.time(n // 60, n % 60) for n in range(250)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [MOMENT + dt.timedelta(n) for n in range(250)]),
    "timestamp_ns": (pa.timestamp("ns"), [n * 10**15 + 1 for n in range(250)]),
    "boolean": (pa.bool_(), [True, False]),
}


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("count", [3, 250])
def test_rows_with_such_keys_are_within(name: str, count: int) -> None:
    kind, values = MANY[name]
    keys = pa.array(values[:count], kind)
    parts = [KeyRange.of("k", keys[at : at + 120]) for at in range(0, len(keys), 120)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.joined(part)
    schema = pa.schema([("k", kind)])
    found = ranges_filter([whole], schema)
    rows = pa.record_batch([keys], schema=schema)
    assert len(found.numbers(rows)) == len(keys)
    if count == 3 and len(values) > 3:
        assert whole.are_all
        other = pa.record_batch([pa.array(values[3:6], kind)], schema=schema)
        assert not len(found.numbers(other))


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_a_range_of_long_keys_is_small(kind: pa.DataType) -> None:
    texts = [f"{letter}{'ü' * 40_000}" for letter in "cab"]
    keys = pa.array(texts, pa.string()).cast(kind)
    found = KeyRange.of("k", keys[:2]).joined(KeyRange.of("k", keys[2:]))
    assert found.values is not None and found.values.nbytes < 2000
    schema = pa.schema([("k", kind)])
    rows = pa.record_batch([keys], schema=schema)
    assert len(ranges_filter([found], schema).numbers(rows)) == 3
    others = pa.record_batch([pa.array(["A", "d"]).cast(kind)], schema=schema)
    assert not len(ranges_filter([found], schema).numbers(others))


def test_keys_above_which_there_is_none_have_no_range() -> None:
    found = KeyRange.of("k", pa.array([b"\xff" * 100_000, b"a"]))
    assert found.values is None and not found.are_all


@pytest.mark.parametrize("name", MANY)
def test_a_key_is_in_one_bucket_wherever_it_comes_from(name: str) -> None:
    kind, values = MANY[name]
    keys = pa.array([*values, *values], kind)
    numbers = bucket_numbers([keys, keys], 8)
    assert (numbers[: len(values)] == numbers[len(values) :]).all()
    part = keys[1 : len(values)]
    assert (bucket_numbers([part, part], 8) == numbers[1 : len(values)]).all()
    if len(values) > 2:
        assert set(numbers.tolist()) == set(range(8))
    rows = pa.record_batch([keys], names=["k"])
    parts = dict(divided(rows, numbers))
    assert sum(part.num_rows for part in parts.values()) == len(keys)
    for number, part in parts.items():
        assert part.column(0).equals(keys.take(pa.array(np.flatnonzero(numbers == number))))
