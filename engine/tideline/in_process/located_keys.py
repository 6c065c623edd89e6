"""Where the keys of a batch are stored, as numbers.

A key is told by a code: its own among the batch's keys and, unless the index is global, its
partition's. Rows and stored keys meet by these codes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tideline.hudi.file_group.handle_context import BATCH_ROW
from tideline.hudi.file_group.stored_key_lookup import IS_GONE, LOCATED_FILE
from tideline.in_process.prepared_rows import Flags, Positions, PreparedRows


@dataclass(frozen=True, slots=True)
class KeyCodes:
    """The keys of a batch as numbers: equal numbers are one key in one place.

    `keys` are the distinct texts, `of_rows` the code of every row.
    """

    keys: pa.Array
    of_rows: Positions
    partitions: pa.Array
    is_global: bool

    @classmethod
    def of(cls, batch: PreparedRows, *, is_global: bool) -> KeyCodes:
        """Number the keys of a batch, within their partitions or in the whole table."""
        encoded = batch.keys.dictionary_encode()
        codes = encoded.indices.to_numpy().astype(np.int64)
        if not is_global:
            codes += batch.partition_codes() * len(encoded.dictionary)
        return cls(encoded.dictionary, codes, batch.partitions.dictionary, is_global)


@dataclass(frozen=True, slots=True)
class LocatedKeys:
    """Stored keys of a batch, one entry per copy: key code, incoming partition, candidate number.

    `gone`: a log has deleted the key there. `rows` has what the lookup found, ordering values among
    it, in the same order.
    """

    codes: Positions
    partitions: Positions
    files: Positions
    gone: Flags
    rows: pa.Table

    @classmethod
    def of(cls, found: pa.Table, codes: KeyCodes, partitions: Positions) -> LocatedKeys:
        """What was found for a batch, whose rows have these keys and partitions; of keys that logs
        deleted one entry, where nothing else has the key.

        A row of such a key goes back to where it was: Hudi's index, which looks into base files
        alone, finds it there.
        """
        found = found.combine_chunks()
        rows = found.column(BATCH_ROW).to_numpy()
        gone = found.column(IS_GONE).to_numpy()
        made = cls(
            codes.of_rows[rows],
            partitions[rows],
            found.column(LOCATED_FILE).to_numpy().astype(np.int64),
            gone,
            found,
        )
        if not gone.any():
            return made
        stored = np.isin(made.codes, made.codes[~gone])
        first = np.lexsort((made.files, made.codes))
        is_first = np.ones(len(first), np.bool_)
        is_first[1:] = np.diff(made.codes[first]) != 0
        kept = ~gone
        kept[first[is_first]] |= ~stored[first[is_first]]
        return made.filter(kept)

    def filter(self, kept: Flags) -> LocatedKeys:
        """The entries that are kept."""
        rows = self.rows.filter(pa.array(kept))
        return LocatedKeys(
            self.codes[kept], self.partitions[kept], self.files[kept], self.gone[kept], rows
        )

    def counts(self) -> dict[tuple[int, int], int]:
        """Keys by incoming partition and file."""
        width = int(self.files.max(initial=0)) + 1
        pairs, counts = np.unique(self.partitions * width + self.files, return_counts=True)
        return {divmod(int(pair), width): int(n) for pair, n in zip(pairs, counts, strict=True)}

    def distinct_keys(self) -> dict[int, int]:
        """Keys by incoming partition, each once however many copies there are."""
        _, first = np.unique(self.codes, return_index=True)
        partitions, counts = np.unique(self.partitions[first], return_counts=True)
        return {int(p): int(n) for p, n in zip(partitions, counts, strict=True)}
