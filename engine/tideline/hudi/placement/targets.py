"""What a bucket of rows becomes: a base file rewritten, logs appended to a slice, new files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tideline.hudi.index.bucket import BucketHash
from tideline.hudi.index.hash_ring import RingHash
from tideline.hudi.table.file_group import BaseFile, FileSlice
from tideline.hudi.timeline.instant_time import InstantTime

if TYPE_CHECKING:
    from tideline.hudi.file_group.file_slice_merge import SliceContext


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """A bucket that rewrites this base file."""

    base_file: BaseFile

    @property
    def bytes_read(self) -> int:
        """How much is read to write it."""
        return self.base_file.size_bytes


@dataclass(frozen=True, slots=True)
class AppendTarget:
    """A bucket that appends log files to this slice.

    `slice_instant` is that of the slice, or of a pending compaction, on top of whose base file they
    will lie. `reading` is how to read the slice, for the writes that
    have to: updates of some columns only.
    """

    file_slice: FileSlice
    slice_instant: InstantTime
    reading: SliceContext | None = None

    @property
    def bytes_read(self) -> int:
        """How much is read to write it."""
        return 0 if self.reading is None else self.file_slice.size_bytes


@dataclass(frozen=True, slots=True)
class CreateTarget:
    """A bucket that makes new files `<file_id_prefix>-<k>`."""

    partition: str
    file_id_prefix: str

    @property
    def bytes_read(self) -> int:
        """How much is read to write it."""
        return 0


Target = MergeTarget | AppendTarget | CreateTarget

KeyHash = BucketHash | RingHash
"""How a bucket index places keys: into SIMPLE buckets or CONSISTENT_HASHING ones."""


@dataclass(frozen=True, slots=True)
class BucketPlacement:
    """Where a bucket index puts rows: number of the bucket for (partition, hash bucket)."""

    hashed: KeyHash
    numbers: Mapping[tuple[str, int], int]
