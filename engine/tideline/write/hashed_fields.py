"""Which fields of a record key of several are hashed in CONSISTENT_HASHING buckets?

No file says it. Hudi's writers hash all of them, or those of `hoodie.bucket.index.hash.field`. So
what a write goes by must put stored keys where they are:

1. Some keys of the partitions that are written, of logs where there is no base file yet.
2. Where these have none, of the partitions that were written to last.
3. One key elsewhere, or no key at all and no fields declared: the fields have to be declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from tideline.errors import ConfigError
from tideline.index.bucket_recognition import written_partitions
from tideline.index.hash_ring import RingHash
from tideline.index.hashing_metadata import load_ring
from tideline.table.file_group import FileSlice
from tideline.table.file_system_view import FileSystemView
from tideline.table.table_config import BUCKET_HASH_FIELD
from tideline.timeline.committed import CommittedInstants
from tideline.write.slice_keys import keys_of_slice
from tideline.write.transaction import WriteTransaction

_SLICES_MAX = 8
"""How many file slices are asked."""

_StoredKeys = tuple[FileSlice, tuple[str, ...]]


def require_hashed_fields(
    transaction: WriteTransaction, view: FileSystemView, hashed: RingHash
) -> None:
    """Raise ConfigError unless stored keys of several fields are where `hashed` puts them."""
    table = transaction.table
    found = _stored_keys(transaction, view, view.partitions) or _elsewhere(transaction, view)
    are_there = (_are_there(transaction, hashed, *one) for one in found)
    if not (all(are_there) if found else hashed.fields):
        raise ConfigError(
            "stored keys do not show that these fields of the record key are hashed (none: all); "
            f"declare {BUCKET_HASH_FIELD}",
            table=table.location.uri,
            value=",".join(hashed.fields) or None,
        )


def _elsewhere(transaction: WriteTransaction, view: FileSystemView) -> tuple[_StoredKeys, ...]:
    """Of other partitions than the view's, the first that has any."""
    table, timeline = transaction.table, transaction.timeline
    for partition in written_partitions(table, timeline):
        if partition not in view.partitions:
            other = table.file_system_view(timeline, (partition,))
            found = _stored_keys(transaction, other, (partition,))
            if found:
                return found
    return ()


def _stored_keys(
    transaction: WriteTransaction, view: FileSystemView, partitions: Iterable[str]
) -> tuple[_StoredKeys, ...]:
    """Keys of a few slices that have any; base files first, which cost less."""
    store, committed = transaction.table.store, CommittedInstants.of(transaction.timeline)
    slices = chain.from_iterable(map(view.latest_slices, partitions))
    ordered = sorted(slices, key=lambda piece: piece.base_file is None)

    def with_keys() -> Iterator[_StoredKeys]:
        for piece in ordered:
            keys = keys_of_slice(store, piece, committed)
            if keys:
                yield piece, keys

    return tuple(islice(with_keys(), _SLICES_MAX))


def _are_there(
    transaction: WriteTransaction, hashed: RingHash, piece: FileSlice, keys: tuple[str, ...]
) -> bool:
    table, timeline, partition = transaction.table, transaction.timeline, piece.partition
    if partition not in hashed.rings:
        view = table.file_system_view(timeline, (partition,))
        ring = load_ring(table.store, partition, timeline, view)
        if ring is None:
            return False
        hashed = RingHash({partition: ring}, hashed.fields)
    ring = hashed.rings[partition]
    return all(piece.file_id == ring.file_id(hashed.bucket(partition, key)) for key in keys)
