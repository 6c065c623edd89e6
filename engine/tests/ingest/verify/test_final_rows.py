"""What the rows of a source come down to, beside a table that takes them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tideline.ingest.verify.final_rows import KeyState, SourceRows, final_rows

Given = tuple[int, int, bool]
"""An id, a rank, and whether it deletes."""


def folded(rows: list[Given], count: int) -> tuple[list[int], list[int]]:
    found = final_rows(source_rows(rows), count)
    return found.states.tolist(), found.rows.tolist()


def source_rows(rows: list[Given], parts: list[int] | None = None) -> SourceRows:
    ids = np.array([row[0] for row in rows], np.int64)
    deletes = np.array([row[2] for row in rows], np.bool_)
    ranks = np.array([row[1] for row in rows], np.int64)
    return SourceRows(
        ids, ids, ranks, np.array(parts or [0] * len(rows)), deletes, np.zeros_like(deletes)
    )


def test_the_highest_row_stays_and_of_equal_ones_the_later() -> None:
    rows = [(0, 5, False), (0, 3, False), (1, 2, False), (1, 2, False)]
    assert folded(rows, 3) == (
        [KeyState.PRESENT, KeyState.PRESENT, KeyState.UNKNOWN_KEY],
        [0, 3, -1],
    )


def test_a_delete_takes_away_what_came_before_it() -> None:
    rows = [(0, 5, False), (0, -1, True), (1, 5, False), (1, -1, True), (1, 6, False)]
    assert folded(rows, 2) == ([KeyState.DELETED, KeyState.PRESENT], [-1, 4])


def test_a_late_delete_that_is_lower_takes_nothing_away() -> None:
    assert folded([(0, 5, False), (0, 3, True)], 1) == ([KeyState.PRESENT], [0])
    assert folded([(0, 5, False), (0, 5, True)], 1) == ([KeyState.DELETED], [-1])


def test_a_low_row_behind_a_delete_is_not_decided() -> None:
    rows = [(0, 5, False), (0, -1, True), (0, 3, False)]
    assert folded(rows, 1) == ([KeyState.UNDECIDED], [-1])


def test_rows_of_a_key_in_several_parts_are_decided_by_the_ordering_alone() -> None:
    def states(ranks: list[int]) -> list[int]:
        rows = [(0, rank, False) for rank in ranks]
        return list(final_rows(source_rows(rows, [0, 1]), 1).states)

    assert states([2, 1]) == [KeyState.PRESENT]
    assert states([1, 1]) == [KeyState.UNDECIDED]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_decided_is_what_a_table_has_whatever_its_commits_hold(seed: int) -> None:
    chance = random.Random(seed)
    rows = [
        (chance.randrange(6), -1 if is_delete else chance.randrange(4), is_delete)
        for is_delete in (chance.random() < 0.25 for _ in range(40))
    ]
    states, positions = folded(rows, 6)
    for _ in range(20):
        ends = sorted({*chance.sample(range(1, 40), 5), 40})
        stored = _taken_in(rows, ends)
        for number in range(6):
            if states[number] == KeyState.PRESENT:
                assert stored.get(number) == positions[number]
            elif states[number] != KeyState.UNDECIDED:
                assert number not in stored


def _taken_in(rows: list[Given], ends: list[int]) -> dict[int, int]:
    """The row of each key, by commits that end where `ends` says."""
    stored: dict[int, int] = {}
    first = 0
    for end in ends:
        held: dict[int, list[int]] = {}
        for position in range(first, end):
            number, _, is_delete = rows[position]
            if is_delete:
                held[number] = []
            held.setdefault(number, []).append(position)
        for number, positions in held.items():
            winner = max(positions, key=lambda position: (rows[position][1], position))
            before = stored.get(number)
            if rows[winner][2]:
                stored.pop(number, None)
            elif before is None or rows[winner][1] >= rows[before][1]:
                stored[number] = winner
        first = end
    return stored
