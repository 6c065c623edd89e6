"""Keys that are looked for, and which of them a stored file may have.

Where many files are looked into, the keys ascend, so that those between two bounds are a slice: a
file is compared with its own keys, not with all. Bounds are those of the statistics of Parquet,
whose order of texts is Arrow's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tideline.hudi.file_group.lookup_candidate import KeyBounds
from tideline.hudi.index.key_range import KeyRange, key_range
from tideline.hudi.table.meta_column import RECORD_KEY

_LOOKUPS_SORTED_FOR = 32
"""Sorting keys takes as long as looking them up, unsorted, in about so many files."""
_COMPARED_MAX = 100_000
"""Comparing more keys with bounds takes as long as looking them up."""


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """Keys to look for, with the partition path each came with, and where they are in their batch
    if that is asked for; of equal ones the first counts. `range` is one that has them all."""

    keys: pa.Array
    partitions: pa.Array
    range: KeyRange | None
    ascends: bool = False
    rows: pa.Array | None = None

    @classmethod
    def of(
        cls,
        keys: pa.Array,
        partitions: pa.Array,
        lookups: int = 1,
        rows: pa.Array | None = None,
    ) -> WantedKeys:
        """Keys that are looked up in so many files."""
        found = cls(keys, partitions, key_range(keys), rows=rows)
        if lookups < _LOOKUPS_SORTED_FOR:
            return found
        # Equal ones stay in their order.
        return replace(found._taken(pc.sort_indices(keys)), ascends=True)

    def within(self, bounds: KeyBounds | None) -> WantedKeys:
        """Those between the bounds, and maybe others; all without bounds."""
        if bounds is None or not self.ascends:
            return self
        start, length = self._slice(bounds)
        return self._with(lambda column: column.slice(start, length))

    def has_any(self, bounds: KeyBounds | None) -> bool:
        """Whether one of them may be between the bounds."""
        if bounds is None or (not self.ascends and len(self.keys) > _COMPARED_MAX):
            return bool(len(self.keys))
        return self._slice(bounds)[1] > 0 if self.ascends else any_within(self.keys, bounds)

    def filtered(self, flags: pa.Array) -> WantedKeys:
        """Those with a flag."""
        return self if pc.all(flags).as_py() else self._taken(pc.indices_nonzero(flags))

    def none(self) -> WantedKeys:
        """None of them."""
        return self._with(lambda column: column.slice(0, 0))

    def _taken(self, places: pa.Array) -> WantedKeys:
        return self._with(lambda column: column.take(places))

    def _with(self, change: Callable[[pa.Array], pa.Array]) -> WantedKeys:
        rows = None if self.rows is None else change(self.rows)
        return replace(self, keys=change(self.keys), partitions=change(self.partitions), rows=rows)

    def _slice(self, bounds: KeyBounds) -> tuple[int, int]:
        start = bisect_left(self.keys, bounds[0], key=pa.StringScalar.as_py)
        return start, bisect_right(self.keys, bounds[1], start, key=pa.StringScalar.as_py) - start


def any_within(keys: pa.Array, bounds: KeyBounds) -> bool:
    """Whether any of the keys is between the bounds."""
    within = pc.and_(pc.greater_equal(keys, bounds[0]), pc.less_equal(keys, bounds[1]))
    return bool(pc.any(within).as_py())


def key_bounds(metadata: pq.FileMetaData) -> list[KeyBounds | None]:
    """The bounds of the record keys of each row group of a file; None where they are not known."""
    column = metadata.schema.names.index(RECORD_KEY) if RECORD_KEY in metadata.schema.names else -1
    if column < 0 or metadata.schema.column(column).path != RECORD_KEY:
        return [None] * metadata.num_row_groups
    numbers = range(metadata.num_row_groups)
    return [_bounds(metadata.row_group(number).column(column).statistics) for number in numbers]


def united_bounds(bounds: list[KeyBounds | None]) -> KeyBounds | None:
    """Bounds around all of these; None where one is not known."""
    known = [pair for pair in bounds if pair is not None]
    if not known or len(known) < len(bounds):
        return None
    return min(least for least, _ in known), max(greatest for _, greatest in known)


def _bounds(statistics: pq.Statistics | None) -> KeyBounds | None:
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        least, greatest = statistics.min, statistics.max
    except UnicodeDecodeError:
        # Cut within a character.
        return None
    return (least, greatest) if isinstance(least, str) and isinstance(greatest, str) else None
