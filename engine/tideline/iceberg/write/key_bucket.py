"""Some of the keys of a write, with the given rows and the rows of the table that have them.

Where no process is to hold all given rows, keys are divided by their hashes: whatever has a key is
in the same bucket, and a bucket is worked on alone.

1. Given rows in the order in which they came: which of them count is decided as for all of them.
2. Rows of the table, in the columns that decide, and those whose values may stay, from files in
   any order: which of them go.
3. Then it is known where these lie, and which given rows are written, with the ids of the rows that
   they replace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tideline.iceberg.data.deletion_vector import Positions
from tideline.iceberg.data.position_deletes import NO_POSITIONS
from tideline.iceberg.data.row_lineage import has_lineage
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.write.changed_files import RowsReadAgain
from tideline.iceberg.write.given_changes import GivenChanges
from tideline.iceberg.write.key_codes import key_codes
from tideline.iceberg.write.keyed_change import KeyedWrite
from tideline.iceberg.write.merged_rows import MergedRows
from tideline.iceberg.write.row_selection import RowNumbers
from tideline.iceberg.write.write_request import RowCounts


@dataclass(slots=True)
class KeyBucket:
    """`given` rows and the rows of a table that have their keys."""

    asked: KeyedWrite
    metadata: TableMetadata
    given: GivenChanges
    _files: list[RowNumbers] = field(default_factory=list)
    _positions: list[Positions] = field(default_factory=list)
    _numbers: list[RowNumbers] = field(default_factory=list)
    _passed: list[RowNumbers] = field(default_factory=list)
    _stored: list[pa.RecordBatch] = field(default_factory=list)

    @classmethod
    def of(cls, rows: pa.Table, asked: KeyedWrite, metadata: TableMetadata) -> KeyBucket:
        """Of given rows, in their order. Raises InvalidDataError as `GivenChanges.of`."""
        given = GivenChanges.of(rows, asked.schema, asked.key, asked.rules)
        return cls(asked, metadata, given)

    def look(self, rows: pa.RecordBatch, files: RowNumbers, positions: Positions) -> None:
        """Look up rows of the table: in which file each is, and where in it."""
        at, numbers, passed = self.given.keys.replaced(rows)
        self._passed.append(passed)
        if len(at):
            self._files.append(files[at])
            self._positions.append(positions[at])
            self._numbers.append(numbers)
            self._stored.append(rows.select(self._kept(rows.schema.names)).take(pa.array(at)))

    def taken_out(self) -> Iterator[tuple[int, Positions]]:
        """The files that have rows that go, each with where these lie, ascending."""
        files = np.concatenate([NO_POSITIONS, *self._files])
        positions = np.concatenate([NO_POSITIONS, *self._positions])
        order = np.lexsort((positions, files))
        files, positions = files[order], positions[order]
        cuts = np.flatnonzero(np.diff(files)) + 1
        parts = np.split(positions, cuts) if len(files) else []
        firsts = files[np.concatenate([[0], cuts])].tolist() if len(files) else []
        yield from zip(firsts, parts, strict=True)

    def merge(self, io: FileIO) -> MergedRows:
        """The given rows as they are to be written, by `over(stored_rows())`."""
        passed = np.concatenate([NO_POSITIONS, *self._passed])
        return MergedRows(io, self.metadata, self.given, passed)

    def stored_rows(self) -> Iterator[RowsReadAgain]:
        """The rows of the table that go, with the given ones that take their places."""
        if self._stored:
            numbers = np.concatenate(self._numbers)
            yield RowsReadAgain(pa.concat_batches(self._stored), np.arange(len(numbers)), numbers)

    def _kept(self, names: Sequence[str]) -> list[str]:
        """The columns that a merge looks at."""
        keys, lacking = self.asked.key.columns, self.given.unavailable
        return [name for name in names if name not in keys or name in lacking]

    @property
    def deleted(self) -> RowCounts:
        """What became of rows where the keys are those of rows that go."""
        return RowCounts(deleted=sum(map(len, self._positions)))


def columns_of_stored(asked: KeyedWrite, marked: Iterable[str]) -> frozenset[str]:
    """The columns in which rows of a table are looked up; `marked` are those in which given rows
    lack values. The ids of rows come beside these where `ids_are_kept`."""
    if asked.deletes:
        return frozenset(asked.key.columns)
    return frozenset((*asked.key.columns, *asked.rules.order_by, *marked))


def ids_are_kept(asked: KeyedWrite, metadata: TableMetadata) -> bool:
    """Whether rows that come have the ids of those that they replace."""
    return has_lineage(metadata) and not asked.deletes


def bucket_numbers(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.int64]:
    """The bucket of each key, of so many, by the key's values without null in some fields."""
    numbers: npt.NDArray[np.int64] = (key_codes(columns) % np.uint64(count)).astype(np.int64)
    return numbers


def divided(
    rows: pa.RecordBatch, numbers: npt.NDArray[np.int64]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number, in their order."""
    order = np.argsort(numbers, kind="stable")
    arranged = rows.take(pa.array(order))
    found, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:].tolist(), rows.num_rows]
    for number, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
        yield number, arranged.slice(start, end - start)
