"""Filters of keys let each of them pass, and few others."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tideline.iceberg.write import key_filter
from tideline.iceberg.write.key_codes import key_codes
from tideline.iceberg.write.key_filter import KeyFilter


def filter_of(columns: list[pa.Array], parts: int = 3) -> KeyFilter:
    return KeyFilter.of(np.array_split(key_codes(columns), parts))


@pytest.mark.parametrize("count", [1, 200, 100_000])
def test_each_key_passes_and_few_others(count: int) -> None:
    found = filter_of([pa.array(range(count), pa.int64())])
    assert found.numbers([pa.array(range(count), pa.int64())]).tolist() == [*range(count)]
    others = pa.array(range(10**9, 10**9 + 200_000), pa.int64())
    assert len(found.numbers([others])) < len(others) / 70


def test_a_full_filter_is_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_filter, "_BITS_MAX", 1 << 19)
    keys = pa.array(range(100_000), pa.int64())
    found = filter_of([keys])
    assert found.bits.nbytes == 1 << 16
    assert len(found.numbers([keys])) == len(keys)


def test_rows_with_a_null_in_their_key_do_not_pass() -> None:
    found = filter_of([pa.array(["a", "b", "c"]), pa.array([1, 2, 3])])
    stored = [pa.array(["a", None, "b", "c", "b"]), pa.array([1, 2, None, 3, 2])]
    assert found.numbers(stored).tolist() == [0, 3, 4]


def test_long_values_are_told_apart() -> None:
    chance = random.Random(3)
    body = chance.randbytes(300_000)
    values = [body + bytes([n, n]) for n in range(20)] + [b"", b"short", b"x" * 256, b"x" * 257]
    for kind in (pa.binary(), pa.string()):
        texts = values if kind == pa.binary() else [value.hex() for value in values]
        column = pa.array(texts, kind)
        codes = key_codes([column])
        assert len(set(codes.tolist())) == len(values)
        assert (key_codes([column[5:]]) == codes[5:]).all()
        assert filter_of([column[:4]]).numbers([column]).tolist() == [0, 1, 2, 3]
