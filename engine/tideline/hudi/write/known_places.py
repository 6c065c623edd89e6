"""Which file groups hold the keys of a batch, as the record index of the table says.

A key is looked up in its shard of the index, block by block, so that the cost does not grow with
the table. What is found there are file groups: whether a key is in its file is still read from the
file, so that a record that is left over costs a look and no row. A key without a record is new.

The index may know more than the timeline that a write began with. Then a place is no file group of
the table yet and all files are looked into, or the commit meets the other writer's new keys as a
conflict. An index that cannot be read is passed over likewise.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from tideline.hudi.metadata_table.reader import UNREADABLE, MetadataTable
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    has_partitioned_record_index,
    places_of,
    shard_name,
)
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import RECORD_INDEX
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.write.engine import WriteEngine
from tideline.index_lookups import count_lookup

KEYS_MAX = 10_000
"""More keys than this are found sooner by reading the key columns of all files."""

_log = logging.getLogger(__name__)


def known_places(
    table: HoodieTable, timeline: ActiveTimeline, engine: WriteEngine, *, is_global: bool
) -> frozenset[FileGroupId] | None:
    """The file groups that the batch's keys are in, in the table or in their partitions; None where
    all have to be looked into."""
    if not table.config.has_kept(RECORD_INDEX):
        return None
    try:
        by_shard = has_partitioned_record_index(table)
        if by_shard and is_global:
            return None
        return _looked_up(table, timeline, engine.keys_by_partition(KEYS_MAX), by_shard=by_shard)
    except UNREADABLE as error:
        _log.warning("keys are looked up in files, for the record index is not read: %s", error)
        count_lookup(is_answered=False)
        return None


def _looked_up(
    table: HoodieTable,
    timeline: ActiveTimeline,
    keys: Mapping[str, Sequence[str]] | None,
    *,
    by_shard: bool,
) -> frozenset[FileGroupId] | None:
    if keys is None:
        return None
    metadata = MetadataTable(table.store, table.clock)
    pending = {instant.time for instant in timeline.pending()}
    by_name: dict[str | None, set[str]] = {}
    for partition, those in keys.items():
        by_name.setdefault(shard_name(partition) if by_shard else None, set()).update(those)
    found = metadata.look_up_in_shards(RECORD_INDEX_PARTITION, by_name, pending)
    return frozenset(place.group for place in places_of(found).values())
