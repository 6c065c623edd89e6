"""Which file groups hold the keys of a batch, as the record index of the table says.

A key is looked up in its shard of the index, block by block, so that the cost does not grow with
the table. What is found there are file groups: whether a key is in its file is still read from the
file, so that a record that is left over costs a look and no row. A key without a record is new.

Of many keys it is estimated first which costs less, the index or the files
(`tideline.hudi.placement.lookup_plan`). The files are listed for that, unless this takes longer
than the look into the index.

The index may know more than the timeline that a write began with. Then a place is no file group of
the table yet and all files are looked into, or the commit meets the other writer's new keys as a
conflict. An index that cannot be read is passed over likewise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.partition import shard_of
from tideline.hudi.metadata_table.reader import UNREADABLE, MetadataTable, StoredPartition
from tideline.hudi.metadata_table.record_index import (
    RECORD_INDEX_PARTITION,
    has_partitioned_record_index,
    places_of,
    shard_name,
)
from tideline.hudi.placement.lookup_plan import (
    KEYS_MAX,
    KEYS_SAMPLED,
    LookupPlan,
    SampledKeys,
    index_seconds,
    listing_seconds,
    plan_lookup,
)
from tideline.hudi.table.file_group import FileGroupId, FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import RECORD_INDEX
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.write.engine import WriteEngine
from tideline.index_lookups import count_lookup

_log = logging.getLogger(__name__)


def known_places(
    table: HoodieTable,
    timeline: ActiveTimeline,
    engine: WriteEngine,
    candidates: Callable[[], Sequence[LookupCandidate]],
    *,
    is_global: bool,
) -> frozenset[FileGroupId] | None:
    """The file groups that the batch's keys are in, in the table or in their partitions; None where
    all `candidates` have to be looked into."""
    if not table.config.has_kept(RECORD_INDEX) or engine.row_count > KEYS_MAX:
        return None
    try:
        by_shard = has_partitioned_record_index(table)
        if by_shard and is_global:
            return None
        shards = {shard_name(path) for path in engine.partitions} if by_shard else None
        look = _Look.into(table, timeline, shards)
        return _looked_up(look, engine, candidates, is_global=is_global)
    except UNREADABLE as error:
        _log.warning("keys are looked up in files, for the record index is not read: %s", error)
        count_lookup(is_answered=False)
        return None


def _looked_up(
    look: _Look,
    engine: WriteEngine,
    candidates: Callable[[], Sequence[LookupCandidate]],
    *,
    is_global: bool,
) -> frozenset[FileGroupId] | None:
    rows = engine.row_count
    if rows <= KEYS_SAMPLED or (is_global and look.is_sooner_than_listing(rows)):
        return frozenset(look.places(engine.keys_by_partition()))
    plan = plan_lookup(rows, look.slices, candidates())
    if plan is LookupPlan.SAMPLE:
        some = engine.keys_by_partition(KEYS_SAMPLED)
        sample = SampledKeys.of(max(1, sum(map(len, some.values()))), look.places(some))
        plan = plan_lookup(rows, look.slices, candidates(), sample)
    if plan is LookupPlan.FILES:
        _log.info("%d keys are looked up in files, which takes less than the record index", rows)
        return None
    return frozenset(look.places(engine.keys_by_partition()))


@dataclass(frozen=True, slots=True)
class _Look:
    """A look into the index as it is stored at one time. `slices` are those that may have the keys;
    what instants that are `pending` in the table say does not count."""

    metadata: MetadataTable
    stored: StoredPartition
    slices: tuple[FileSlice, ...]
    by_shard: bool
    pending: frozenset[InstantTime]

    @classmethod
    def into(cls, table: HoodieTable, timeline: ActiveTimeline, shards: set[str] | None) -> _Look:
        """All of the index, or these shards."""
        metadata = MetadataTable(table.store, table.clock)
        stored = metadata.stored(RECORD_INDEX_PARTITION, metadata.timeline())
        newest = (slices[0] for slices in stored.groups)
        kept = (
            file_slice
            for file_slice in newest
            if shards is None or shard_of(RECORD_INDEX_PARTITION, file_slice.group) in shards
        )
        pending = frozenset(instant.time for instant in timeline.pending())
        return cls(metadata, stored, tuple(kept), shards is not None, pending)

    def is_sooner_than_listing(self, keys: int) -> bool:
        """Whether so many keys are looked up before all files are listed."""
        listed = self.metadata.stored(FILES_PARTITION, self.stored.timeline)
        newest = [slices[0] for slices in listed.groups]
        return index_seconds(keys, self.slices) <= listing_seconds(newest)

    def places(self, keys: Mapping[str, Sequence[str]]) -> list[FileGroupId]:
        """The file group of each key that is found, of keys by their partitions."""
        by_name: dict[str | None, set[str]] = {}
        for partition, those in keys.items():
            name = shard_name(partition) if self.by_shard else None
            by_name.setdefault(name, set()).update(those)
        found = self.metadata.look_up_in_shards(
            RECORD_INDEX_PARTITION, by_name, self.pending, stored=self.stored
        )
        return [place.group for place in places_of(found).values()]
