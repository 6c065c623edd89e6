"""Which fields of a record key of several are hashed in CONSISTENT_HASHING buckets?

No file says it. Hudi's writers hash all of them, or those of `hoodie.bucket.index.hash.field`. So
the fields that a write hashes must put stored keys where they are:

1. Some keys of the partitions that are written, of logs where there is no base file yet.
2. Where these have none, of the partitions that were written to last.
3. One key elsewhere, or no key at all and no fields declared: the fields have to be declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice

from tideline.errors import ConfigError
from tideline.hudi.file_group.slice_keys import keys_of_slice
from tideline.hudi.index.bucket_recognition import written_partitions
from tideline.hudi.index.hash_ring import RingHash
from tideline.hudi.index.hashing_metadata import load_ring
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import BUCKET_HASH_FIELD
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.committed import CommittedInstants

_SLICES_MAX = 8
"""How many file slices are asked."""

_StoredKeys = tuple[FileSlice, tuple[str, ...]]


def require_hashed_fields(
    table: HoodieTable, timeline: ActiveTimeline, view: FileSystemView, hashed: RingHash
) -> None:
    """Raise ConfigError unless stored keys of several fields are where `hashed` puts them."""
    asked = _Asked(table, timeline)
    found = asked.keys_in(view) or asked.keys_elsewhere(view.partitions)
    if found:
        are_known = all(asked.are_there(hashed, file_slice, keys) for file_slice, keys in found)
    else:
        are_known = bool(hashed.fields)
    if not are_known:
        raise ConfigError(
            "stored keys do not show that these fields of the record key are hashed (none: all); "
            f"declare {BUCKET_HASH_FIELD}",
            table=table.location.uri,
            value=",".join(hashed.fields) or None,
        )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The table whose keys are asked, as a timeline shows it."""

    table: HoodieTable
    timeline: ActiveTimeline

    def keys_in(self, view: FileSystemView) -> tuple[_StoredKeys, ...]:
        """Keys of a few slices that have any; base files first, which cost less."""
        slices = chain.from_iterable(map(view.latest_slices, view.partitions))
        ordered = sorted(slices, key=lambda file_slice: file_slice.base_file is None)
        committed = CommittedInstants.of(self.timeline)
        read = (
            (file_slice, keys_of_slice(self.table.store, file_slice, committed))
            for file_slice in ordered
        )
        return tuple(islice((pair for pair in read if pair[1]), _SLICES_MAX))

    def keys_elsewhere(self, known: Sequence[str]) -> tuple[_StoredKeys, ...]:
        """Of other partitions than the known ones, of the first that has any."""
        others = written_partitions(self.table, self.timeline)
        views = (self._view(partition) for partition in others if partition not in known)
        return next(filter(None, map(self.keys_in, views)), ())

    def are_there(self, hashed: RingHash, file_slice: FileSlice, keys: Sequence[str]) -> bool:
        """Whether the hash puts all of a slice's keys into its bucket."""
        partition = file_slice.partition
        ring = hashed.rings.get(partition) or load_ring(
            self.table.store, partition, self.timeline, self._view(partition)
        )
        if ring is None:
            return False
        buckets = RingHash({partition: ring}, hashed.fields).buckets([partition] * len(keys), keys)
        return all(file_slice.file_id == ring.file_id(bucket) for bucket in buckets)

    def _view(self, partition: str) -> FileSystemView:
        return self.table.files.view(self.timeline, (partition,))
