"""Older slices of the metadata table stay for writers that began when they were the newest."""

from __future__ import annotations

import pytest

from tideline.hudi.metadata_table.files_partition import FILES_PARTITION
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.writer import SLICES_KEPT_MAX
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh, stale_listing


def metadata_of(small: SmallTable) -> MetadataTable:
    return MetadataTable(small.store(), small.clock)


def is_kept(small: SmallTable) -> bool:
    return stale_listing(open_fresh(small.location)) == []


def slices_of_files(small: SmallTable) -> list[InstantTime]:
    """The base instants of the file group of `files`, the newest first."""
    metadata = metadata_of(small)
    (slices,) = metadata.stored(FILES_PARTITION, metadata.timeline()).groups
    return [file_slice.base_instant for file_slice in slices]


@pytest.mark.parametrize(("commits", "is_there"), [(12, True), (4 * SLICES_KEPT_MAX, False)])
def test_a_slice_stays_that_a_pending_write_may_have_seen(
    small: SmallTable, commits: int, is_there: bool
) -> None:
    """As Hudi's do, which commit here by the timeline of their beginning."""
    often = {"hoodie.metadata.compact.max.delta.commits": "2"}
    may_be_compacted = not metadata_of(small).form.logs_name_slice
    (first,) = slices_of_files(small)[:1]

    def write_others() -> None:
        for v in range(2, 2 + commits):
            small.write("upsert", batch([v % 3 * 2], v), options=often)
        found = slices_of_files(small)
        if may_be_compacted:
            assert (first in found) is is_there
            assert len(found) == 1 + min(commits // 2, 1 + SLICES_KEPT_MAX)

    small.write("upsert", batch([1], 2), options=often, after_files=write_others)
    assert is_kept(small)
    for v in range(100, 104):
        small.write("upsert", batch([v % 6], v), options=often)
    assert len(slices_of_files(small)) == 2
    assert is_kept(small)
