"""Archival of a metadata table: its old instants move to its own history, as those of a table do.

The oldest instants go, as far as all of them are completed, and in the last compaction of `files`:
those after it say which logs count. It happens under the lock of the table, by the steps of
`execute`, after the table's own archival.

Source: Hudi's HoodieMetadataWriteUtils, which keeps as many instants there as in the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from tideline.errors import CorruptTableError, TableNotFoundError, UnsupportedTableError
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import ArchivalDone, execute_archival
from tideline.hudi.services.archival.plan import ArchivalPlan
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.properties import load_any_table_config
from tideline.hudi.table.table_config import METADATA_TABLE_PATH
from tideline.hudi.table.table_properties import TableProperties
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.services.explanation import NotDue
from tideline.storage.lock import Guard, unguarded
from tideline.storage.store_below import StoreBelow
from tideline.wording import counted


def archive_metadata_table(
    table: HoodieTable, config: ArchivalConfig, guard: Guard = unguarded
) -> ArchivalDone | None:
    """Archive one portion of the metadata table's instants; None where none is kept.

    Call under the table lock. Nothing happens where it cannot be read: the next commit sees to it.
    Raises ConflictError as `execute_archival`.
    """
    if not table.properties.reload().keeps_metadata_table:
        return None
    store = StoreBelow(table.store, METADATA_TABLE_PATH)
    try:
        config_there = load_any_table_config(store)
        properties = TableProperties(store, table.clock, config_there, load_any_table_config)
        opened = HoodieTable(table.location, properties, _unlisted)
        return execute_archival(opened, config, plan_metadata_archival, guard)
    except (CorruptTableError, UnsupportedTableError, TableNotFoundError):
        return None


def _unlisted(_partitions: Iterable[str] | None) -> None:
    """A metadata table has no metadata table."""


def plan_metadata_archival(
    table: HoodieTable,  # noqa: ARG001
    timeline: ActiveTimeline,
    config: ArchivalConfig,
    instants_max: int | None = None,  # noqa: ARG001
) -> ArchivalPlan | NotDue:
    """The oldest instants of a metadata table's timeline that may go, or why none is due."""
    compaction = timeline.of(Action.COMMIT).completed().last()
    if compaction is None:
        return NotDue("the metadata table has not been compacted yet")
    limit = compaction.time

    def is_compacted(instant: Instant) -> bool:
        at = instant.completed_at
        # Where no completion time is said it is the instant, of the compaction itself as well.
        return at is not None and at <= limit and instant.time < limit

    surplus = len(timeline) - config.commits_min
    free = list(takewhile(is_compacted, timeline))[: max(surplus, 0)]
    if len(timeline) <= config.commits_max or not free:
        return NotDue(f"the metadata table has {counted(len(timeline), 'instant')}")
    return ArchivalPlan(tuple(free), config.commits_max)
