"""The order in which rows of a batch go to their files."""

from __future__ import annotations

import numpy as np
import pytest

from tideline.in_process.arrangement import arrival_within


@pytest.mark.parametrize("groups_max", [1, 7, 1 << 15, (1 << 15) + 1, 1 << 20])
def test_rows_of_a_group_stay_in_the_order_of_their_arrival(groups_max: int) -> None:
    groups = np.random.default_rng(7).integers(0, groups_max, 5_000)
    groups[:2] = groups_max - 1, 0
    arranged = arrival_within(groups)
    assert arranged.tolist() == sorted(range(len(groups)), key=lambda row: (groups[row], row))


def test_no_rows_have_no_order() -> None:
    assert not len(arrival_within(np.array([], np.int64)))
