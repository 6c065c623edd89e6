"""Merging the entries of a log, all keys at once, one entry of each key after the other.

In round n the n-th entry of every key that has one meets what is left of those before it; a log has
about as many rounds as blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tideline.hudi.table.ordering_value import is_lower

Flags = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]

Met = Callable[[Positions, Positions, Flags, Flags], None]


class EntryFold:
    """The entries of a log, to be merged key by key.

    `codes` gives each entry its key's number, below `keys`; `ordering` has an array for each
    ordering field, empty when the newer entry always wins. `deletes` are the entries that delete
    their key, `from_delete_block` those of them that are no rows.
    """

    def __init__(
        self,
        *,
        codes: npt.NDArray[np.int32],
        keys: int,
        ordering: list[pa.Array],
        deletes: Flags,
        from_delete_block: Flags,
    ) -> None:
        self.keys = keys
        self.ordering = ordering
        self.deletes = deletes
        self._codes = codes
        self._from_delete_block = from_delete_block
        self.natural = deletes & _is_default(ordering, len(deletes))

    def last(self) -> Positions:
        """The newest entry of every key."""
        winners = np.zeros(self.keys, dtype=np.int64)
        np.maximum.at(winners, self._codes, np.arange(len(self._codes)))
        return winners

    def winners(self, met: Met | None) -> Positions:
        """The entry left of every key; `met` is called for each meeting and each first entry."""
        order = np.argsort(self._codes, kind="stable")
        starts = np.searchsorted(self._codes[order], np.arange(self.keys))
        counts = np.diff(np.append(starts, len(order)))
        winners = order[starts]
        if met is not None:
            alone = np.ones(self.keys, dtype=np.bool_)
            met(np.arange(self.keys), winners, alone, alone)
        for nth in range(1, int(counts.max())):
            keys = np.flatnonzero(counts > nth)
            entries = order[starts[keys] + nth]
            older = winners[keys]
            wins = self._newer_wins(entries, older)
            winners[keys[wins]] = entries[wins]
            if met is not None:
                met(keys, entries, wins, self.deletes[entries] | self.deletes[older])
        return winners

    def _newer_wins(self, newer: Positions, older: Positions) -> Flags:
        new, old = pa.array(newer), pa.array(older)
        lower = is_lower(
            [values.take(new) for values in self.ordering],
            [values.take(old) for values in self.ordering],
            len(newer),
        )
        wins = ~lower | self.natural[newer] | self.natural[older]
        # Nothing is gained by deleting what is deleted for good, and its rank would be lost.
        return wins & ~(self._from_delete_block[newer] & self.natural[older])


def _is_default(ordering: Sequence[pa.Array], count: int) -> Flags:
    """Where there is no ordering value, or the integer 0."""
    if not ordering:
        return np.ones(count, dtype=np.bool_)
    default = np.zeros(count, dtype=np.bool_)
    for values in ordering:
        default |= values.is_null().to_numpy(zero_copy_only=False)
    if len(ordering) == 1 and types.is_int32(ordering[0].type):
        zeros = pc.fill_null(pc.equal(ordering[0], 0), False)
        default |= zeros.to_numpy(zero_copy_only=False)
    return default
