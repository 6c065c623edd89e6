"""Statistics from the first commit of a table on, where its settings ask for them.

The metadata table was made just before, under the same lock, and the partitions of statistics are
made in it without records. The commit then goes into them as into those of any table.
"""

from __future__ import annotations

import logging

from tideline.errors import UnsupportedTableError
from tideline.hudi.metadata_table.column_stats import COLUMN_STATS_PARTITION
from tideline.hudi.metadata_table.config import StatisticsConfig
from tideline.hudi.metadata_table.index_making import initial_records, make_partition
from tideline.hudi.metadata_table.partition import TableChange, WholeTable
from tideline.hudi.metadata_table.partition_stats import PARTITION_STATS_PARTITION
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.storage.lock import Guard

_log = logging.getLogger(__name__)


def begin_statistics(change: TableChange, asked: StatisticsConfig, guard: Guard) -> None:
    """Make statistics for a table whose first commit is `change`; a warning says why there are
    none. Raises what `guard` and the store raise."""
    table, written = change.table, change.written
    if change.timeline.of(*COMMIT_ACTIONS).completed().last() is not None:
        _log.warning(
            "no statistics are made by this commit, for the table has rows of earlier ones: "
            "tideline index create makes them"
        )
        return
    whole = WholeTable(
        table,
        change.timeline,
        change.contents,
        asked.columns or None,
        asked.columns_max,
        written.schema_json if written is not None else None,
    )
    partitions = (COLUMN_STATS_PARTITION, PARTITION_STATS_PARTITION)
    try:
        for partition in partitions if table.config.partition_fields else partitions[:1]:
            make_partition(partition, initial_records(partition, whole), whole, guard)
    except UnsupportedTableError as error:
        _log.warning("no statistics are made: %s", error)
