"""Bins: nothing lost, nothing over the limit, filled and closed as Iceberg's are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.iceberg.bin_pack import pack, pack_end

weights = st.lists(st.integers(0, 120), max_size=60)
targets = st.integers(1, 200)
lookbacks = st.integers(1, 6)


def itself(weight: int) -> int:
    return weight


@given(weights, targets, lookbacks, st.booleans(), st.none() | st.integers(1, 5))
def test_every_item_is_in_one_bin_and_no_shared_bin_is_over_a_limit(
    items: list[int], target: int, lookback: int, largest_first: bool, items_max: int | None
) -> None:
    for packer in (pack, pack_end):
        bins = packer(
            items,
            itself,
            target,
            lookback=lookback,
            largest_first=largest_first,
            items_max=items_max,
        )
        assert sorted(item for size_bin in bins for item in size_bin) == sorted(items)
        assert all(size_bin for size_bin in bins)
        for group in bins:
            assert len(group) == 1 or sum(group) <= target
            assert items_max is None or len(group) <= items_max


@given(weights, targets)
def test_with_one_open_bin_order_is_kept_and_the_next_item_never_fits(
    items: list[int], target: int
) -> None:
    bins = pack(items, itself, target)
    assert [item for size_bin in bins for item in size_bin] == items
    for group, following in pairwise(bins):
        assert sum(group) + following[0] > target


@given(weights, targets)
def test_packing_from_the_end_leaves_the_remainder_in_front(items: list[int], target: int) -> None:
    bins = pack_end(items, itself, target)
    assert [item for size_bin in bins for item in size_bin] == items
    for group, following in pairwise(bins):
        assert group[-1] + sum(following) > target


@pytest.mark.parametrize(
    ("items", "target", "lookback", "largest_first", "bins"),
    [
        ([1, 2, 3, 4, 5], 3, 1, False, [[1, 2], [3], [4], [5]]),
        ([1, 2, 3, 4, 5], 6, 1, False, [[1, 2, 3], [4], [5]]),
        ([36, 36, 36, 36, 73, 110, 128], 128, 1, False, [[36, 36, 36], [36, 73], [110], [128]]),
        ([36, 36, 36, 36, 65, 65, 128], 128, 2, True, [[36, 36, 36], [128], [36, 65], [65]]),
        ([36, 36, 36, 36, 65, 65, 128], 128, 2, False, [[36, 36, 36], [36, 65], [65], [128]]),
        ([64, 64, 128, 32, 32, 32, 32], 128, 2, True, [[64, 64], [128], [32, 32, 32, 32]]),
        ([], 10, 1, False, []),
    ],
)
def test_bins_are_filled_first_fit_and_closed_oldest_or_heaviest_first(
    items: list[int], target: int, lookback: int, largest_first: bool, bins: list[list[int]]
) -> None:
    assert pack(items, itself, target, lookback=lookback, largest_first=largest_first) == bins


def test_packing_from_the_end_turns_bins_and_items_round() -> None:
    assert pack_end([2, 5, 1], itself, 7) == [[2], [5, 1]]
    assert pack([2, 5, 1], itself, 7) == [[2, 5], [1]]
