"""What the rows of a source come down to: of each key the row that a table should have.

1. Without deletes it is the row with the highest ordering values, of equal ones the later.
2. A delete without ordering values takes away what came before it, one with values what is not
   higher. Of the rows behind the last delete the highest stays.
3. A row behind a delete that is lower than one before it is in a table or not, by which commit held
   the delete: nobody can say which is right. So it is with rows of a key in several parts of the
   source, unless the ordering decides. These keys are left out.

Values in, values out; all of it is arrays of whole buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tideline.ingest.sources.known_rows import Known

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

NOWHERE = -1
UNORDERED = -1
"""The rank of a row without ordering values; others have 0 and more."""


class KeyState(IntEnum):
    """What a table should have of a key."""

    UNKNOWN_KEY = 0
    """The source has no row of it."""
    PRESENT = 1
    DELETED = 2
    UNDECIDED = 3
    EXISTS = 4
    """A row whose values are not known."""


@dataclass(frozen=True, slots=True)
class SourceRows:
    """Rows of a source: the number of each one's key and, where keys are as unique as a partition,
    of its key and partition, `ids`; its rank by the ordering columns; its part of the source. They
    are in the order of arrival. Deletes that are `wide` are of all ids of a key.
    """

    ids: Numbers
    keys: Numbers
    ranks: Numbers
    parts: Numbers
    deletes: Flags
    wide: Flags


@dataclass(frozen=True, slots=True)
class FinalRows:
    """By the number of an id: its state, the position of its row, the highest rank met."""

    states: npt.NDArray[np.int8]
    rows: Numbers
    highest: Numbers


def final_rows(given: SourceRows, count: int) -> FinalRows:
    """Those of the ids below `count`."""
    arrival = np.arange(len(given.ids))
    last_delete = _last_deletes(given, arrival, count)
    behind = (arrival > last_delete[given.ids]) & ~given.deletes
    winner = _highest(given, np.ones(len(given.ids), np.bool_), count)
    behind_winner = _highest(given, behind, count)
    highest = _ranks_at(given, winner)
    before = np.full(count, UNORDERED, np.int64)
    np.maximum.at(before, given.ids[~behind], given.ranks[~behind])

    states = np.full(count, KeyState.UNKNOWN_KEY, np.int8)
    known = winner != NOWHERE
    is_deleted = known & (last_delete != NOWHERE)
    states[known & ~is_deleted] = KeyState.PRESENT
    rows = np.where(is_deleted, behind_winner, winner)
    again = is_deleted & (behind_winner != NOWHERE)
    states[again] = np.where(
        _ranks_at(given, behind_winner)[again] >= before[again],
        KeyState.PRESENT,
        KeyState.UNDECIDED,
    )
    # Nothing came behind the last delete.
    gone = is_deleted & (behind_winner == NOWHERE)
    delete_ranks = _ranks_at(given, np.where(gone, last_delete, NOWHERE))
    wins = gone & ((delete_ranks == UNORDERED) | (delete_ranks >= before))
    states[wins] = KeyState.DELETED
    too_low = gone & ~wins
    several = np.bincount(given.ids[given.deletes], minlength=count) > 1
    states[too_low] = np.where(several[too_low], KeyState.UNDECIDED, KeyState.PRESENT)
    rows[too_low] = winner[too_low]
    states[known & _in_several_parts(given, highest, count)] = KeyState.UNDECIDED
    return FinalRows(states, np.where(states == KeyState.PRESENT, rows, NOWHERE), highest)


def is_spread(ids: Numbers, parts: Numbers, count: int) -> Flags:
    """Which of the ids below `count` have rows in several parts."""
    low = np.full(count, np.iinfo(np.int64).max, np.int64)
    high = np.full(count, NOWHERE, np.int64)
    np.minimum.at(low, ids, parts)
    np.maximum.at(high, ids, parts)
    found: Flags = low < high
    return found


def note_known(
    final: FinalRows, ids: Numbers, keys: Numbers, known: npt.NDArray[np.int8], *, has_place: bool
) -> None:
    """Where the last row of a key only says that there is one, or nothing, so do its states; `ids`
    and `keys` are of the rows of both sides, the `known` ones first. Without a place a row may be
    that of any id of the key."""
    if not known.any():
        return
    last = np.zeros(int(keys.max()) + 1, np.int64)
    np.maximum.at(last, keys[: len(known)], np.arange(len(known)))
    # A key that only the table has is no key of a row here.
    is_given = np.zeros(len(last), np.bool_)
    is_given[keys[: len(known)]] = True
    of_key = np.where(is_given, known[last], Known.ROW)
    of_row = of_key[keys]
    final.states[ids[of_row == Known.NOTHING]] = KeyState.UNDECIDED
    exists = ids[of_row == Known.EXISTS]
    final.states[exists] = KeyState.EXISTS if has_place else KeyState.UNDECIDED
    places = last[keys][of_row == Known.EXISTS]
    final.rows[exists] = places


def _last_deletes(given: SourceRows, arrival: Numbers, count: int) -> Numbers:
    """Of each id the position of the last row that deletes it."""
    last = np.full(count, NOWHERE, np.int64)
    narrow = given.deletes & ~given.wide
    np.maximum.at(last, given.ids[narrow], arrival[narrow])
    if given.wide.any():
        of_key = np.full(int(given.keys.max(initial=0)) + 1, NOWHERE, np.int64)
        np.maximum.at(of_key, given.keys[given.wide], arrival[given.wide])
        np.maximum.at(last, given.ids, of_key[given.keys])
    return last


def _highest(given: SourceRows, among: Flags, count: int) -> Numbers:
    """Of each id the position of the row with the highest rank, of equal ones the last."""
    positions = np.flatnonzero(among)
    order = positions[np.lexsort((given.ranks[positions], given.ids[positions]))]
    found = np.full(count, NOWHERE, np.int64)
    # Of several values for one place the last stays.
    found[given.ids[order]] = order
    return found


def _ranks_at(given: SourceRows, positions: Numbers) -> Numbers:
    return np.where(positions == NOWHERE, UNORDERED, np.append(given.ranks, UNORDERED)[positions])


def _in_several_parts(given: SourceRows, highest: Numbers, count: int) -> Flags:
    """Ids whose rows are in several parts, where the ordering does not say which one stays."""
    everywhere = is_spread(given.ids, given.parts, count)
    if not everywhere.any():
        return everywhere
    has_delete = np.bincount(given.ids[given.deletes], minlength=count) > 0
    top = given.ranks == highest[given.ids]
    return everywhere & (has_delete | is_spread(given.ids[top], given.parts[top], count))
