"""Curves through columns: neighbours on them are neighbours in every column."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from tideline.sorting.space_curve import Curve, curve_positions


def test_a_hilbert_curve_visits_neighbours() -> None:
    side = 16
    cells = list(itertools.product(range(side), repeat=2))
    columns = [pa.array([cell[axis] for cell in cells]) for axis in range(2)]
    bounds = [pa.array(range(1, side)) for _ in range(2)]
    path = np.argsort(curve_positions(columns, bounds, Curve.HILBERT))
    steps = [
        abs(cells[a][0] - cells[b][0]) + abs(cells[a][1] - cells[b][1])
        for a, b in itertools.pairwise(path.tolist())
    ]
    assert set(steps) == {1}


def test_a_z_order_interleaves_the_bits() -> None:
    columns = [pa.array([0, 0, 1, 1]), pa.array([0, 1, 0, 1])]
    bounds = [pa.array([1]), pa.array([1])]
    assert curve_positions(columns, bounds, Curve.ZORDER).tolist() == [0, 1, 2, 3]
