"""Which bucket each row of a batch goes to. Numbers, no rows.

1. A row whose key is stored goes to every file group that has it, others have no location.
2. With a global index a row may be stored in another partition: it moves, as a delete there and an
   insert here, or is written where it was.
3. Located rows go to the buckets of their file groups; inserts share the buckets of their partition
   by its weights, all rows of a key in one.

Source: Hudi's HoodieIndexUtils.tagGlobalLocationBackToRecords, UpsertPartitioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tideline.hudi.placement.upsert_partitioner import BucketPlan
from tideline.in_process.located_keys import LocatedKeys
from tideline.in_process.prepared_rows import Flags, Positions

NOWHERE = -1
"""The file of a row whose key is not stored, the bucket of a row that goes to none."""
_SPARSE = 8
"""A table of numbers may be so many times as long as there are of them."""


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """One entry per row and place it goes to.

    `rows` are positions in the batch, `codes` their keys', `files` numbers of candidates, `homes`
    positions among `paths`. `found` is the entry of the located key, where there is one. With
    `are_single` every key is stored once at most.
    """

    rows: Positions
    codes: Positions
    files: Positions
    homes: Positions
    deletes: Flags | None
    found: Positions
    are_single: bool = False

    @classmethod
    def of(
        cls,
        codes: Positions,
        partitions: Positions,
        deletes: Flags | None,
        located: LocatedKeys | None,
    ) -> RoutedRows:
        """Every row with the places where its key is stored."""
        rows = np.arange(len(codes))
        if located is None or not len(located.codes):
            nowhere = np.full(len(codes), NOWHERE)
            return cls(rows, codes, nowhere, partitions, deletes, nowhere)
        single = _single_places(codes, located)
        if single is not None:
            files = np.where(single == NOWHERE, NOWHERE, located.files[single])
            return cls(rows, codes, files, partitions, deletes, single, are_single=True)
        order = np.argsort(located.codes, kind="stable")
        ordered = located.codes[order]
        low = np.searchsorted(ordered, codes, "left")
        places = np.searchsorted(ordered, codes, "right") - low
        entries = np.repeat(rows, np.maximum(places, 1))
        starts = np.cumsum(np.maximum(places, 1)) - np.maximum(places, 1)
        nth = np.arange(len(entries)) - starts[entries]
        is_found = places[entries] > 0
        found = np.full(len(entries), NOWHERE)
        found[is_found] = order[(low[entries] + nth)[is_found]]
        files = np.full(len(entries), NOWHERE)
        files[is_found] = located.files[found[is_found]]
        flags = None if deletes is None else deletes[entries]
        return cls(entries, codes[entries], files, partitions[entries], flags, found)

    def moved(self, stored_in: Positions, wins: Flags | None) -> RoutedRows:
        """The rows of a global index, whose files are in the partitions `stored_in`.

        `wins`: which entries win against their stored row and follow their new partition; None
        where rows never leave theirs.
        """
        deletes = np.zeros(len(self.rows), np.bool_) if self.deletes is None else self.deletes
        is_found = self.files != NOWHERE
        stored = np.where(is_found, stored_in[self.files], self.homes)
        moves = np.zeros(len(self.rows), np.bool_)
        if wins is not None:
            moves = is_found & (stored != self.homes) & ~deletes & wins
        staying = replace(
            self,
            files=np.where(moves, NOWHERE, self.files),
            homes=np.where(moves, self.homes, stored),
            deletes=deletes,
        )
        leaving = replace(self, homes=stored, deletes=np.ones(len(self.rows), np.bool_))
        return staying.joined(leaving.select(np.flatnonzero(moves)))

    def buckets(
        self, plan: BucketPlan, of_file: Positions, paths: Sequence[str], *, inserts_rows: bool
    ) -> Positions:
        """The bucket of every entry, `NOWHERE` for a row that is written nowhere.

        `of_file`: the bucket of every candidate.
        """
        is_found = self.files != NOWHERE
        buckets = np.full(len(self.rows), NOWHERE)
        buckets[is_found] = of_file[self.files[is_found]]
        routes = plan.insert_routes(inserts_rows=inserts_rows)
        for home in np.unique(self.homes[~is_found]):
            weights = routes.get(paths[home])
            if weights is None:
                continue
            here = np.flatnonzero(~is_found & (self.homes == home))
            if len(weights) == 1:
                buckets[here] = weights[0][1]
                continue
            shares = np.array([share for share, _ in weights])
            numbers = np.array([number for _, number in weights])
            distinct, ranks = np.unique(self.codes[here], return_inverse=True)
            buckets[here] = numbers[np.searchsorted(shares, ranks / len(distinct), "left")]
        return buckets

    def select(self, entries: Positions) -> RoutedRows:
        """These entries."""
        return RoutedRows(
            self.rows[entries],
            self.codes[entries],
            self.files[entries],
            self.homes[entries],
            None if self.deletes is None else self.deletes[entries],
            self.found[entries],
        )

    def joined(self, other: RoutedRows) -> RoutedRows:
        """Both; each has deletes."""
        assert self.deletes is not None
        assert other.deletes is not None
        return RoutedRows(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.files, other.files]),
            np.concatenate([self.homes, other.homes]),
            np.concatenate([self.deletes, other.deletes]),
            np.concatenate([self.found, other.found]),
        )


def _single_places(codes: Positions, located: LocatedKeys) -> Positions | None:
    """For each code its entry among the located keys, `NOWHERE` where it has none; None where a key
    has several, or codes are far apart."""
    width = 1 + int(max(codes.max(initial=0), located.codes.max()))
    if width > _SPARSE * (len(codes) + len(located.codes)):
        return None
    entries = np.full(width, NOWHERE)
    entries[located.codes] = np.arange(len(located.codes))
    if np.count_nonzero(entries != NOWHERE) < len(located.codes):
        return None
    return entries[codes]
