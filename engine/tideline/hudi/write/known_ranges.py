"""The ranges of the keys of files that are looked into, from the statistics of the table.

One look at them takes the place of one at the footer of each file whose keys are others: those of a
table whose keys ascend with time. Keys that are spread over all files gain nothing, and lose the
look. What cannot be read is passed over: footers say the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.metadata_table.reader import UNREADABLE
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.table_config import COLUMN_STATS
from tideline.index_lookups import count_lookup

FILES_MIN = 8
"""Of fewer files the footers are read: that takes no longer than a look into the statistics."""

_log = logging.getLogger(__name__)


def with_key_ranges(
    table: HoodieTable, candidates: Sequence[LookupCandidate]
) -> tuple[LookupCandidate, ...]:
    """The candidates, with the bounds of their keys where statistics have them."""
    paths = {
        number: candidate.file_slice.base_file.path
        for number, candidate in enumerate(candidates)
        if candidate.file_slice.base_file is not None and not candidate.file_slice.log_files
    }
    is_kept = table.config.has_kept(COLUMN_STATS) and table.config.populate_meta_fields
    if not is_kept or len(paths) < FILES_MIN:
        return tuple(candidates)
    # The controller plans without what reads rows.
    from tideline.hudi.metadata_table.key_ranges import key_ranges

    try:
        ranges = key_ranges(table, tuple(paths.values()))
    except UNREADABLE as error:
        _log.warning("keys are looked for in all files, as statistics are not read: %s", error)
        count_lookup(is_answered=False)
        return tuple(candidates)
    count_lookup(is_answered=True)
    return tuple(
        replace(candidate, bounds=ranges.get(paths.get(number, "")))
        for number, candidate in enumerate(candidates)
    )
