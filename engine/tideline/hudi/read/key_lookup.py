"""The slices that may hold the rows of a condition, by the keys that it names.

1. The record keys of the rows: the condition names all values of `_hoodie_record_key`, or of every
   column that keys are made of, or of a column that has a secondary index.
2. The file groups with these keys, by the record index. A row is in the file group that its key's
   record names, and nowhere else.
3. What was found counts where the metadata table is in step with the reader's timeline
   (`in_step`): the indexes say where keys are now.

A key that is stored twice has one record. Reads by key find one of both rows, as Hudi's do.
Source: Hudi's RecordLevelIndexSupport, SecondaryIndexSupport (1.2).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from tideline.errors import UnsupportedTableError
from tideline.formats.allowed_values import allowed_values
from tideline.formats.row_filter import RowFilter
from tideline.hudi.keys.key_generator import EMPTY_KEY
from tideline.hudi.metadata_table.in_step import is_in_step
from tideline.hudi.metadata_table.reader import UNREADABLE, MetadataTable
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    has_partitioned_record_index,
    places_of,
    shard_name,
)
from tideline.hudi.metadata_table.secondary_index import (
    SecondaryIndexPartition,
    record_key_in,
    secondary_indexes,
    secondary_key,
)
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.hudi.table.table_config import RECORD_INDEX, KeyGeneratorKind
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.index_lookups import count_lookup

KEYS_MAX = 1_000
"""More keys than this are in so many files that these are read as they are."""
_SHARDS_MAX = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NamedKeys:
    """The record keys that rows of a condition may have, and the indexes that say so."""

    keys: frozenset[str]
    indexes: frozenset[str]


def slices_with_keys(
    table: HoodieTable,
    timeline: ActiveTimeline,
    slices: Sequence[FileSlice],
    row_filter: RowFilter,
) -> tuple[FileSlice, ...]:
    """Those of the newest slices of a table, as `timeline` has them, that may hold the keys that a
    condition names; all where it names none, or the indexes cannot be used."""
    if RECORD_INDEX not in table.config.metadata_partitions:
        return tuple(slices)
    try:
        groups = _groups(table, timeline, slices, row_filter)
    except UNREADABLE as error:
        _log.warning("no file is left out by keys, for the indexes are not read: %s", error)
        count_lookup(is_answered=False)
        return tuple(slices)
    if groups is None:
        return tuple(slices)
    count_lookup(is_answered=True)
    kept = tuple(piece for piece in slices if piece.group in groups)
    _log.debug("%d of %d file slices are left out by keys", len(slices) - len(kept), len(slices))
    return kept


def _groups(
    table: HoodieTable,
    timeline: ActiveTimeline,
    slices: Sequence[FileSlice],
    row_filter: RowFilter,
) -> Collection[FileGroupId] | None:
    shards = None
    if has_partitioned_record_index(table):
        shards = {shard_name(piece.group.partition) for piece in slices}
        if len(shards) > _SHARDS_MAX:
            return None
    metadata = MetadataTable(table.store, table.clock)
    named = _named_keys(table, metadata, row_filter, by_value=shards is None)
    if named is None:
        return None
    keys = dict.fromkeys(shards or (None,), named.keys)
    places = places_of(metadata.look_up_in_shards(RECORD_INDEX_PARTITION, keys))
    if not is_in_step(table, metadata, timeline, {RECORD_INDEX, *named.indexes}):
        _log.info("no file is left out by keys: the metadata table has other commits")
        count_lookup(is_answered=False)
        return None
    return {place.group for place in places.values()}


def _named_keys(
    table: HoodieTable, metadata: MetadataTable, row_filter: RowFilter, *, by_value: bool
) -> NamedKeys | None:
    stored = allowed_values(row_filter, RECORD_KEY)
    if stored is not None:
        return NamedKeys(frozenset(stored), frozenset())
    spelled = _spelled_keys(table, row_filter)
    if spelled is not None:
        return NamedKeys(spelled, frozenset())
    for index in secondary_indexes(table) if by_value else ():
        values = None if index.column is None else allowed_values(row_filter, index.column)
        if values is not None:
            keys = _keys_with_values(metadata, index, values)
            return None if keys is None else NamedKeys(keys, frozenset({index.name}))
    return None


def _spelled_keys(table: HoodieTable, row_filter: RowFilter) -> frozenset[str] | None:
    """The record keys that the allowed values of key columns are spelled as, whichever version of
    Hudi did so."""
    fields = table.config.record_key_fields
    allowed = [allowed_values(row_filter, name) for name in fields]
    values = [found for found in allowed if found is not None]
    is_known = _has_known_spelling(table) and bool(fields) and len(values) == len(fields)
    if not is_known or prod(map(len, values)) > KEYS_MAX:
        return None
    found: set[str] = set()
    for row in product(*values):
        texts = [str(value) or EMPTY_KEY for value in row]
        found.add(",".join(f"{name}:{text}" for name, text in zip(fields, texts, strict=True)))
        if len(fields) == 1:
            found.update((str(row[0]), texts[0]))
    return frozenset(found)


def _has_known_spelling(table: HoodieTable) -> bool:
    """Whether keys are not made by a class of the user's."""
    try:
        return table.config.key_generator in KeyGeneratorKind
    except UnsupportedTableError:
        return False


def _keys_with_values(
    metadata: MetadataTable, index: SecondaryIndexPartition, values: Sequence[Any]
) -> frozenset[str] | None:
    """The record keys of the rows with a value; None where there are too many."""
    beginnings = [secondary_key(str(value), "") for value in values]
    records = metadata.look_up_beginnings(index, beginnings, are_hashed=index.hashes_value)
    newest: dict[str, MetadataRecord] = {}
    for record in records:
        newest[record.key] = record
        if len(newest) > KEYS_MAX:
            return None
    return frozenset(
        record_key_in(record.key) for record in newest.values() if not record.is_deleted
    )
