"""Where values of rows that are filled up come from, beside a table that takes them one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.ingest.verify.filled_rows import FilledRows, filled_rows
from tideline.ingest.verify.final_rows import FinalRows, KeyState, SourceRows, final_rows

MARKER = "?"
PARTIAL = PartialUpdates(PartialUpdateMode.FILL_UNAVAILABLE, MARKER)
IDS = 5


@dataclass(frozen=True)
class Given:
    """One record: a delete has no values; without a rank it has no order."""

    number: int
    rank: int
    values: tuple[str, str] = (MARKER, MARKER)
    is_delete: bool = False


def filled(rows: list[Given], *, may_be_gone: bool = False) -> tuple[FinalRows, FilledRows]:
    ids = np.array([row.number for row in rows], np.int64)
    deletes = np.array([row.is_delete for row in rows], np.bool_)
    ranks = np.array([row.rank for row in rows], np.int64)
    parts = np.zeros(len(rows), np.int64)
    given = SourceRows(ids, ids, ranks, parts, deletes, np.zeros_like(deletes))
    final = final_rows(given, IDS)
    columns = {name: [row.values[at] for row in rows] for at, name in enumerate("ab")}
    source = pa.table(columns)
    found = filled_rows(
        source, given, final, PARTIAL, is_ordered=True, may_be_gone=may_be_gone
    )  # fmt: skip
    return final, found


def values_of(rows: list[Given], number: int) -> tuple[str, str]:
    final, found = filled(rows)
    ids = np.array([number])
    places = [int(found.of(name, final.rows[ids], ids)[0]) for name in "ab"]
    return rows[places[0]].values[0], rows[places[1]].values[1]


def test_a_row_keeps_the_last_value_that_was_there() -> None:
    rows = [
        Given(0, 1, ("x", "y")),
        Given(0, 2, (MARKER, "z")),
        Given(0, 3, (MARKER, MARKER)),
        Given(1, 1, (MARKER, "w")),
    ]
    assert values_of(rows, 0) == ("x", "z")
    assert values_of(rows, 1) == (MARKER, "w")
    assert not filled(rows)[1].undecided.any()


def test_a_value_of_before_a_delete_is_not_decided() -> None:
    rows = [Given(0, 1, ("x", "y")), Given(0, 2, is_delete=True), Given(0, 3, (MARKER, "z"))]
    assert filled(rows)[1].undecided.tolist()[0]
    whole = [*rows[:2], Given(0, 3, ("v", "z")), Given(0, 4, (MARKER, "u"))]
    assert not filled(whole)[1].undecided.any()
    assert values_of(whole, 0) == ("v", "u")


def test_a_repeated_part_of_history_is_decided_where_it_says_the_same() -> None:
    again = [Given(0, 1, ("x", "y")), Given(0, 2, (MARKER, "z"))] * 2
    assert values_of(again, 0) == ("x", "z")
    assert not filled(again)[1].undecided.any()
    other = [*again, Given(0, 1, ("w", "y"))]
    assert filled(other)[1].undecided.tolist()[0]


def test_what_gone_records_may_have_said_is_open() -> None:
    rows = [Given(0, 1, (MARKER, "y")), Given(1, 1, ("x", "y"))]
    _, found = filled(rows, may_be_gone=True)
    assert found.is_open("a", np.array([0, 1])).tolist() == [True, False]
    assert found.is_open("b", np.array([0, 1])).tolist() == [False, False]


@pytest.mark.parametrize("seed", range(40))
def test_what_is_decided_is_what_a_table_has_whatever_its_commits_hold(seed: int) -> None:
    chance = random.Random(seed)
    rows = [_record(chance, at, is_rising=seed % 2 == 0) for at in range(40)]
    final, found = filled(rows)
    decided = 0
    for _ in range(20):
        ends = sorted({*chance.sample(range(1, 40), 6), 40})
        stored = _taken_in(rows, ends)
        for number in range(IDS):
            if final.states[number] != KeyState.PRESENT or found.undecided[number]:
                continue
            decided += 1
            assert stored[number].values == values_of(rows, number), (ends, number)
    assert decided or seed % 2


def _record(chance: random.Random, at: int, *, is_rising: bool) -> Given:
    number, rank = chance.randrange(IDS), at if is_rising else chance.randrange(6)
    if chance.random() < 0.1:
        return Given(number, chance.choice((-1, rank)), is_delete=True)
    a, b = (MARKER if chance.random() < 0.5 else chance.choice("xyz") for _ in "ab")
    return Given(number, rank, (a, b))


def _taken_in(rows: list[Given], ends: list[int]) -> dict[int, Given]:
    """The row of each key, by commits that end where `ends` says."""
    stored: dict[int, Given] = {}
    first = 0
    for end in ends:
        held: dict[int, Given] = {}
        for row in rows[first:end]:
            is_natural = row.is_delete and row.rank < 0
            before = held.get(row.number)
            held[row.number] = row if before is None or is_natural else _met(before, row)
        for number, row in held.items():
            before = stored.get(number)
            result = row if before is None or row.rank < 0 else _met(before, row)
            if result.is_delete:
                stored.pop(number, None)
            else:
                stored[number] = result
        first = end
    return stored


def _met(old: Given, new: Given) -> Given:
    """What is left of two rows of a key."""
    wins = new.rank >= old.rank or (old.is_delete and old.rank < 0)
    winner, other = (new, old) if wins else (old, new)
    if winner.is_delete or other.is_delete:
        return winner
    pairs = zip(winner.values, other.values, strict=True)
    a, b = (there if mine == MARKER else mine for mine, there in pairs)
    return replace(winner, values=(a, b))
