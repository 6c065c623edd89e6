"""Whether rows that were read in a storm are a state that the table was in.

Each writer's rows must be those after some number of its batches, no fewer than were acknowledged
before the read and no more than were begun after it. Rows of an erasure are all there or all gone,
gone where it was acknowledged before. So half a commit, a lost one and one of earlier are seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tideline.testing.storm_writer import StormBatch, acknowledged, read_journal

Values = list[tuple[str, int]]
Line = list[Any]
"""What a process noted at one time."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What the journals in a storm's folder say: how many batches each writer has had acknowledged
    and has begun, and the keys of erasures."""

    acknowledged: Mapping[int, int]
    begun: Mapping[int, int]
    erased: tuple[frozenset[str], ...]
    """Of erasures that were acknowledged."""
    erasing: tuple[frozenset[str], ...]
    """Of all that were begun."""

    @classmethod
    def read(cls, folder: Path) -> Progress:
        """As it is now."""
        begun, done = {}, {}
        for journal in folder.glob("writer-?"):
            events = read_journal(journal)
            writer = int(journal.name.removeprefix("writer-"))
            begun[writer] = len({number for _, number in events})
            done[writer] = len(acknowledged(events))
        erasures = read_lines(folder / "eraser")
        keys = [(kind, frozenset(found)) for kind, found in erasures]
        return cls(
            done,
            begun,
            tuple(found for kind, found in keys if kind == "erased"),
            tuple(found for kind, found in keys if kind == "begun"),
        )

    def values(self) -> Values:
        """The rows of the table where nothing is in doubt."""
        gone = frozenset().union(*self.erased)
        rows = (state_after(writer, count) for writer, count in self.acknowledged.items())
        return sorted((key, v) for state in rows for key, v in state.items() if key not in gone)


def refuse_half_states(
    values: Values, before: Progress, after: Progress, *, may_be_older: bool = False
) -> None:
    """Raise AssertionError for rows that the table never had between two looks at the journals.

    `may_be_older`: nor any time earlier, as what is published later.
    """
    seen = dict(values)
    doubled = sorted(key for key, _ in set(values) if sum(name == key for name, _ in values) > 1)
    assert len(seen) == len(values), f"twice: {doubled}"
    for writer, begun in after.begun.items():
        own = {key: v for key, v in seen.items() if key.startswith(f"k{writer}")}
        first = 0 if may_be_older else before.acknowledged.get(writer, 0)
        # Newer states are likelier.
        states = (state_after(writer, count) for count in range(begun, first - 1, -1))
        if not any(_fits(own, state, before, after, may_be_older) for state in states):
            newest = state_after(writer, begun)
            raise AssertionError(
                f"writer {writer}: no state after {first} to {begun} batches has these rows; "
                f"unlike the newest: {sorted(newest.items() ^ own.items())}, erasures begun: "
                f"{[sorted(keys) for keys in after.erasing]}"
            )


def read_lines(journal: Path) -> list[Line]:
    """The whole lines of a journal, each a list; a kill may have cut the last one."""
    whole, _, _ = (journal.read_text() if journal.exists() else "").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def state_after(writer: int, count: int) -> Mapping[str, int]:
    """The rows of a writer after so many batches, erasures aside."""
    state: dict[str, int] = {}
    for number in range(count):
        operation, rows = _batch(writer, number)
        if operation == "delete":
            for key in rows:
                state.pop(key, None)
        else:
            state |= rows
    return state


@cache
def _batch(writer: int, number: int) -> tuple[str, Mapping[str, int]]:
    storm_batch = StormBatch(writer, number)
    columns = storm_batch.rows.select(["id", "v"]).to_pydict()
    return storm_batch.operation, dict(zip(columns["id"], columns["v"], strict=True))


def _fits(
    own: Mapping[str, int],
    state: Mapping[str, int],
    before: Progress,
    after: Progress,
    may_be_older: bool,
) -> bool:
    missing = state.keys() - own.keys()
    gone: set[str] = set()
    for keys in after.erasing:
        expected = keys & state.keys()
        must_be_gone = keys in before.erased and not may_be_older
        if expected <= missing:
            gone |= expected
        elif must_be_gone or expected & missing:
            return False
    return own == _without(state, gone)


def _without(state: Mapping[str, int], gone: Iterable[str]) -> Mapping[str, int]:
    dropped = set(gone)
    return {key: v for key, v in state.items() if key not in dropped}
