"""Where the columns of a key's row come from while its entries are merged, one after another.

An entry that wins over an older one takes over the columns it lacks itself; one that loses leaves
it those that the older one lacks. Nothing is taken over where either is a delete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tideline.hudi.log.entry_fold import Flags, Positions


class ColumnSources:
    """Follows an `EntryFold`, whose meetings it is told of by `met`.

    `has` says which of some entries have a value in a column.
    """

    def __init__(
        self, names: Iterable[str], keys: int, has: Callable[[Positions, str], Flags]
    ) -> None:
        self._has = has
        self._sources: Mapping[str, Positions] = {name: np.full(keys, -1) for name in names}

    def met(self, keys: Positions, entries: Positions, wins: Flags, replaces: Flags) -> None:
        """Note where the columns of these keys come from now that `entries` met their winners.

        `replaces`: the entry comes alone, because it or what it met is a delete.
        """
        for name, source in self._sources.items():
            has = self._has(entries, name)
            fresh = replaces & wins
            source[keys[fresh]] = np.where(has[fresh], entries[fresh], -1)
            over = wins & ~replaces & has
            source[keys[over]] = entries[over]
            under = ~wins & ~replaces & has & (source[keys] < 0)
            source[keys[under]] = entries[under]

    def entries(self, name: str, winners: Positions) -> Positions:
        """The entry that each key has this column of; where none has a value, its own."""
        source = self._sources[name]
        return np.where(source < 0, winners, source)

    def present(self) -> dict[str, Flags]:
        """Which keys have a value, by column."""
        return {name: source >= 0 for name, source in self._sources.items()}
