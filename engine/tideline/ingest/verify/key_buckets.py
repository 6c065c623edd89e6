"""Rows kept in files of a temporary folder, by ranges of the hashes of their keys.

A bucket has all rows of its keys, so each can be compared alone: memory depends on the size of a
bucket, and a disk holds the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tideline.in_process.bucket_numbers import java_hashes

KEY = "_tideline_key"
"""The record key as text, in every row."""
_ROWS_PER_BUCKET = 100_000
_BUCKETS_MAX = 512
_BUFFERED_ROWS = 1_000_000
_SPREAD = 2_654_435_769
"""Hashes of similar keys are similar."""


def bucket_count(rows: int) -> int:
    """How many buckets so many rows are put in."""
    return min(_BUCKETS_MAX, max(1, -(-rows // _ROWS_PER_BUCKET)))


@dataclass(slots=True)
class KeyBuckets:
    """The rows of one side. Rows are gathered first: files of few rows cost more than they hold."""

    folder: Path
    count: int
    _gathered: list[pa.Table] = field(default_factory=list)
    _gathered_rows: int = 0
    _files: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    def add(self, rows: pa.Table) -> None:
        """Rows with their KEY."""
        self._gathered.append(rows)
        self._gathered_rows += rows.num_rows
        if self._gathered_rows >= _BUFFERED_ROWS:
            self._write()

    def read(self, number: int) -> pa.Table | None:
        """The rows of one bucket, in the order in which they came; None where it has none."""
        self._write()
        files = sorted(self.folder.glob(f"{number:04d}-*.parquet"))
        return pa.concat_tables([pq.read_table(file) for file in files]) if files else None

    def _write(self) -> None:
        if not self._gathered:
            return
        rows = pa.concat_tables(self._gathered)
        self._gathered, self._gathered_rows = [], 0
        keys = rows.column(KEY).combine_chunks()
        spread = java_hashes(keys).astype(np.uint64) * np.uint64(_SPREAD) % np.uint64(1 << 32)
        numbers = (spread * np.uint64(self.count) >> np.uint64(32)).astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        sizes = np.bincount(numbers, minlength=self.count)
        ends = np.cumsum(sizes)
        arranged = rows.take(pa.array(order))
        for number in np.flatnonzero(sizes).tolist():
            part = arranged.slice(int(ends[number] - sizes[number]), int(sizes[number]))
            path = self.folder / f"{number:04d}-{self._files:06d}.parquet"
            pq.write_table(part, path, compression="zstd", write_statistics=False)
        self._files += 1
