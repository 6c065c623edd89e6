"""How many buckets a table of Hudi's has: found from its keys, because nothing else says it.

Declared numbers are checked against the keys of a few files. Without a declaration the number is
taken only where it is the only one that explains every key; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from tideline.errors import ConfigError
from tideline.hudi.file_group.stored_keys import (
    FILES_MAX,
    keys_of_footers,
    keys_of_rows,
    sampled_files,
)
from tideline.hudi.index.bucket import BucketHash, bucket_of_file_id
from tideline.hudi.index.bucket_count import StoredKey, fitting_counts, misplaced_key
from tideline.hudi.index.bucket_layout import has_bucket_ids
from tideline.hudi.index.bucket_recognition import written_partitions
from tideline.hudi.index.partition_rules import EXPRESSIONS
from tideline.hudi.table.file_group import BaseFile, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import BUCKET_COUNT, BUCKET_HASH_FIELD
from tideline.storage.object_store import ObjectStore

KEYS_MIN = 16
"""Fewer keys may fit a wrong number of buckets by chance."""
_SHOWN_MAX = 4


def checked_buckets(
    table: HoodieTable, slices: Sequence[FileSlice], declared: BucketHash
) -> BucketHash:
    """`declared`, when it puts stored keys where they are. Raises ConfigError when it does not."""
    for file_slice in slices:
        count, bucket = (
            declared.count_in(file_slice.partition),
            bucket_of_file_id(file_slice.file_id),
        )
        if bucket >= count:
            raise ConfigError(
                f"the table is declared to have {count} buckets here, but there is bucket "
                f"{bucket}; correct {BUCKET_COUNT} or {EXPRESSIONS}",
                table=table.location.uri,
                path=file_slice.group,
            )
    files = sampled_files(slices)
    keys = keys_of_footers(table.store, files)
    if len(keys) < KEYS_MIN:
        keys += keys_of_rows(table.store, files)
    stranger = misplaced_key(keys, declared)
    if stranger is not None:
        count = declared.count_in(stranger.partition)
        raise ConfigError(
            f"key {stranger.record_key!r} is not where {count} buckets would place it; correct "
            f"{BUCKET_COUNT}, {BUCKET_HASH_FIELD} or {EXPRESSIONS}",
            table=table.location.uri,
            path=stranger.path,
            value=count,
        )
    return declared


def inferred_buckets(
    table: HoodieTable, slices: Sequence[FileSlice], asked: BucketHash
) -> BucketHash:
    """`asked` with the only number of buckets that explains stored keys.

    Partitions with rules of their own do not count for it, but have to fit. Raises ConfigError
    naming what to declare where there is no such number, or more than one.
    """
    files: tuple[BaseFile, ...] = ()
    found: tuple[int, ...] | None = None
    keys: tuple[StoredKey, ...] = ()
    is_proof = False
    for read, known in _sources(table, slices):
        free = [
            file_slice for file_slice in known if asked.rules.count_in(file_slice.partition) is None
        ]
        files = sampled_files(free, _FILES_MAX if known is not slices else FILES_MAX)
        keys = read(table.store, files)
        found = _counts(keys, free, asked)
        is_proof = found is not None and len(found) == 1 and _is_proof(table, keys, found[0])
        if is_proof or found == ():
            break
    if found is None or (found and not is_proof):
        numbers = "any number" if found is None else _some(found)
        raise ConfigError(
            "the table has a bucket index of Hudi's, and its keys do not say how many buckets it "
            f"has ({numbers} would fit): declare {BUCKET_COUNT}",
            table=table.location.uri,
            path=files[0].path if files else None,
        )
    if not found:
        raise _unexplained(table, keys, free, asked)
    return checked_buckets(table, slices, replace(asked, num_buckets=found[0]))


_PARTITIONS_MAX = 16
_FILES_MAX = 64
"""Looked into where the few partitions written last hold too few keys, as in a small table."""

_Reader = Callable[[ObjectStore, Sequence[BaseFile]], tuple[StoredKey, ...]]


def _sources(
    table: HoodieTable, slices: Sequence[FileSlice]
) -> Iterator[tuple[_Reader, Sequence[FileSlice]]]:
    """What is asked, one after another until it is enough: how, and which file slices."""
    yield keys_of_footers, slices
    yield keys_of_rows, slices
    timeline = table.timeline()
    partitions = written_partitions(table, timeline)[:_PARTITIONS_MAX]
    if {file_slice.partition for file_slice in slices}.issuperset(partitions):
        return
    view = table.files.view(timeline, partitions)
    found = chain.from_iterable(map(view.latest_slices, view.partitions))
    yield keys_of_rows, [file_slice for file_slice in found if has_bucket_ids([file_slice.group])]


def _is_proof(table: HoodieTable, keys: Sequence[StoredKey], count: int) -> bool:
    """Whether the only number that fits shows that the hash itself is the right one.

    It is another one where only a part of the record key is hashed, and for keys with colons in
    tables of Hudi before 1.0; then few keys, or a single bucket, fit by chance.
    """
    is_whole = len(table.config.record_key_fields) == 1
    if is_whole and not any(":" in key.record_key for key in keys):
        return True
    return count > 1 and len(keys) >= KEYS_MIN


def _counts(
    keys: Sequence[StoredKey], slices: Sequence[FileSlice], asked: BucketHash
) -> tuple[int, ...] | None:
    highest = max((bucket_of_file_id(file_slice.file_id) for file_slice in slices), default=0)
    return fitting_counts(keys, asked.fields, at_least=highest + 1)


def _unexplained(
    table: HoodieTable,
    keys: Sequence[StoredKey],
    slices: Sequence[FileSlice],
    asked: BucketHash,
) -> ConfigError:
    """Why no number fits: partitions differ, or the hash is made of something else."""
    uri = table.location.uri
    partitions = sorted({file_slice.partition for file_slice in slices})
    alone = {
        name: _counts(
            [key for key in keys if key.partition == name],
            [file_slice for file_slice in slices if file_slice.partition == name],
            asked,
        )
        for name in partitions
    }
    if len(partitions) > 1 and all(found is None or found for found in alone.values()):
        each = "; ".join(
            f"{name}: {'any' if found is None else _some(found)}" for name, found in alone.items()
        )
        return ConfigError(
            f"partitions have different numbers of buckets ({each}): declare {EXPRESSIONS} "
            f"and {BUCKET_COUNT}",
            table=uri,
        )
    return ConfigError(
        "file ids begin with bucket numbers, but no number of buckets puts stored keys where they "
        f"are; declare {BUCKET_HASH_FIELD} if a part of the record key is hashed",
        table=uri,
        path=keys[0].path if keys else None,
        value=keys[0].record_key if keys else None,
    )


def _some(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN_MAX]))
    return shown if len(numbers) <= _SHOWN_MAX else f"{shown}, ..."
