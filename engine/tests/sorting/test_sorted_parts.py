"""Which part of a sorted whole each row is in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tideline.sorting.sorted_parts import SortKey, part_numbers, sort_indices, split_keys

COUNT = 1_000
_CHANCE = np.random.default_rng(3)
WHOLE = pa.array(_CHANCE.integers(-50, 50, COUNT))
KINDS = {
    "whole numbers": WHOLE,
    "days": WHOLE.cast(pa.int32()).cast(pa.date32()),
    "unsigned": pa.array(_CHANCE.integers(0, 2**64 - 1, COUNT, dtype=np.uint64)),
    "with nulls": pa.array(WHOLE.to_numpy(), mask=WHOLE.to_numpy() % 7 == 0),
    "texts": WHOLE.cast(pa.string()),
    "numbers": pa.array(np.where(WHOLE.to_numpy() % 9 == 0, np.nan, WHOLE.to_numpy() / 3)),
}


@pytest.mark.parametrize("direction", ["ascending", "descending"])
@pytest.mark.parametrize("kind", KINDS)
def test_parts_in_order_are_the_whole_in_order(kind: str, direction: str) -> None:
    keys = pa.table([KINDS[kind]], names=["0"])
    order: list[SortKey] = [("0", direction, "at_start")]
    splits = split_keys(keys.slice(0, COUNT // 3), 7, order)
    numbers = part_numbers(keys, splits, order)
    assert set(np.unique(numbers)) == set(range(7))
    sorted_whole = keys.take(sort_indices(keys, order))["0"].to_pylist()
    in_parts = [
        value
        for part in range(7)
        for rows in [keys.filter(pa.array(numbers == part))]
        for value in rows.take(sort_indices(rows, order))["0"].to_pylist()
    ]
    assert repr(in_parts) == repr(sorted_whole)
    # Rows that equal a split come after it.
    for number, split in enumerate(splits["0"].to_pylist()):
        equal = [n for n, key in zip(numbers, keys["0"].to_pylist(), strict=True) if key == split]
        assert all(n > number for n in equal)
