"""Indexes that Hudi is building, in partitions of the metadata table that are not listed yet.

Hudi lists a partition when it is built, whatever became of its files meanwhile. One that is listed
without files fails queries and writes.
"""

from __future__ import annotations

from tideline.errors import ConflictError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, State


def require_no_index_build(table: HoodieTable, timeline: ActiveTimeline) -> None:
    """Raise ConflictError while Hudi builds an index. One that is only requested reads what is
    there when it begins."""
    for instant in timeline.of(Action.INDEXING).pending():
        if instant.state is State.INFLIGHT:
            raise ConflictError(
                "Hudi builds an index, which this change would break: try again when it is done. "
                "Where its writer has died, drop the index with Hudi (DROP INDEX)",
                table=table.uri,
                instant=instant,
            )
