"""The slices that may hold the rows of a condition, by the keys that it names.

1. The record keys of the rows: the condition names all values of `_hoodie_record_key`, or of every
   column that keys are made of, or of a column that has a secondary index.
2. The file groups with these keys, by the record index. A row is in the file group that its key's
   record names, and nowhere else.
3. What was found counts where the metadata table is in step with the reader's timeline
   (`in_step`): the indexes say where keys are now.

A key that is stored twice has one record: reads by key find one of both rows at most, as Hudi's do.
What is about to be changed is looked for in all files.
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
from tideline.hudi.metadata_table.in_step import was_in_step
from tideline.hudi.metadata_table.reader import UNREADABLE, MetadataTable, StoredPartition
from tideline.hudi.metadata_table.record import MetadataRecord
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    KeyPlace,
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
COST_MAX = 1.0
"""Of the files and bytes of the slices, what a look into an index may take."""
_SHARDS_MAX = 16

_log = logging.getLogger(__name__)


def slices_with_keys(
    table: HoodieTable,
    timeline: ActiveTimeline,
    slices: Sequence[FileSlice],
    row_filter: RowFilter,
) -> tuple[FileSlice, ...]:
    """Those of the newest slices of a table, as `timeline` has them, that may hold the keys that a
    condition names; all where it names none, or the indexes cannot be used."""
    if not table.config.has_kept(RECORD_INDEX):
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
    kept = tuple(file_slice for file_slice in slices if file_slice.group in groups)
    _log.debug("%d of %d file slices are left out by keys", len(slices) - len(kept), len(slices))
    return kept


def _groups(
    table: HoodieTable,
    timeline: ActiveTimeline,
    slices: Sequence[FileSlice],
    row_filter: RowFilter,
) -> Collection[FileGroupId] | None:
    named = _named_keys(table, row_filter)
    valued = _named_values(table, row_filter) if named is None else None
    if named is None and valued is None:
        return None
    shards = None
    if has_partitioned_record_index(table):
        shards = {shard_name(file_slice.group.partition) for file_slice in slices}
        if valued is not None or len(shards) > _SHARDS_MAX:
            return None
    metadata = MetadataTable(table.store, table.clock)
    look = _Look(metadata, metadata.timeline(), slices)
    if valued is not None:
        named = look.keys_with(*valued)
    places = None if named is None else look.places(named, shards)
    if places is None:
        return None
    used = {RECORD_INDEX} if valued is None else {RECORD_INDEX, valued[0].name}
    groups = {place.group for place in places}
    is_in_step = was_in_step(table, metadata, look.read_by, timeline, used)
    if not is_in_step or _has_others(slices, groups):
        _log.info("no file is left out by keys: the metadata table has other commits")
        count_lookup(is_answered=False)
        return None
    return groups


@dataclass(frozen=True, slots=True)
class _Look:
    """A look into the indexes, by one timeline of the metadata table, instead of these slices."""

    metadata: MetadataTable
    read_by: ActiveTimeline
    slices: Sequence[FileSlice]

    def places(
        self, keys: frozenset[str], shards: Collection[str] | None
    ) -> Collection[KeyPlace] | None:
        """Where the keys are; None where finding it takes as long as reading the slices."""
        stored = self.metadata.stored(RECORD_INDEX_PARTITION, self.read_by)
        if not self._is_worth_it(stored, len(keys) * len(shards or (None,))):
            return None
        by_shard = dict.fromkeys(shards or (None,), keys)
        found = self.metadata.look_up_in_shards(
            RECORD_INDEX_PARTITION, by_shard, stored=stored, has_all=True
        )
        return places_of(found).values()

    def keys_with(
        self, index: SecondaryIndexPartition, values: Sequence[Any]
    ) -> frozenset[str] | None:
        """The record keys of the rows with a value; None where there are too many, or finding them
        takes as long as reading the slices."""
        stored = self.metadata.stored(index, self.read_by)
        looks = len(values) if index.hashes_value else len(stored.groups)
        if not self._is_worth_it(stored, looks):
            return None
        beginnings = [secondary_key(str(value), "") for value in values]
        newest: dict[str, MetadataRecord] = {}
        for record in self.metadata.look_up_beginnings(
            index, beginnings, stored, are_hashed=index.hashes_value
        ):
            newest[record.key] = record
            if len(newest) > KEYS_MAX:
                return None
        return frozenset(
            record_key_in(record.key) for record in newest.values() if not record.is_deleted
        )

    def _is_worth_it(self, stored: StoredPartition, looks: int) -> bool:
        """Whether so many file groups of an index have fewer files, and logs of fewer bytes, than
        the slices."""
        newest = [slices[0] for slices in stored.groups]
        logs = [log for file_slice in newest for log in file_slice.log_files]
        share = min(1.0, looks / max(1, len(newest)))
        data = [file for file_slice in self.slices for file in file_slice.row_files]
        log_bytes = sum(log.size_bytes for log in logs)
        data_bytes = sum(file.size_bytes for file in data)
        has_fewer_files = share * (len(newest) + len(logs)) <= COST_MAX * len(data)
        return has_fewer_files and share * log_bytes <= COST_MAX * data_bytes


def _has_others(slices: Sequence[FileSlice], groups: Collection[FileGroupId]) -> bool:
    """Whether a place is in none of the slices, though its partition is."""
    there = {file_slice.group for file_slice in slices}
    partitions = {group.partition for group in there}
    return any(group.partition in partitions and group not in there for group in groups)


def _named_keys(table: HoodieTable, row_filter: RowFilter) -> frozenset[str] | None:
    stored = allowed_values(row_filter, RECORD_KEY)
    return _spelled_keys(table, row_filter) if stored is None else frozenset(stored)


def _named_values(
    table: HoodieTable, row_filter: RowFilter
) -> tuple[SecondaryIndexPartition, list[Any]] | None:
    for index in secondary_indexes(table):
        values = None if index.column is None else allowed_values(row_filter, index.column)
        if values is not None:
            return index, values
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
