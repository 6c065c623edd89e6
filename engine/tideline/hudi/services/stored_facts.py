"""The facts that triggers use, read from the table when they are asked for, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tideline.hudi.recovery.execute import FailedWrites
from tideline.hudi.recovery.recover import find_recoverable_writes
from tideline.hudi.services.due_facts import ArchivalHolds
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.services.past_cleans import read_last_clean
from tideline.hudi.services.table_history import clusterings, log_compactions
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.markers import marked_names
from tideline.hudi.table.table_config import METADATA_TABLE_PATH, TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.hudi.timeline.known_zone import KnownZone
from tideline.storage.heartbeat import list_heartbeats

Value = TypeVar("Value")


class _Kept(Generic[Value]):
    """A property that is read once. `functools.cached_property` holds a lock over all instances in
    Python 3.11, while it reads a store."""

    def __init__(self, read: Callable[[Any], Value]) -> None:
        self._read = read

    def __get__(self, instance: Any, owner: type) -> Value:
        found = self._read(instance)
        instance.__dict__[self._read.__name__] = found
        return found


@dataclass(frozen=True)
class StoredFacts:
    """See `DueFacts`. `policy` says whose writes count as failed; without it none does."""

    table: HoodieTable
    timeline: ActiveTimeline
    policy: FailedWrites | None = None

    @_Kept
    def now_ms(self) -> int:
        return self.table.clock.now_ms()

    @property
    def zone(self) -> KnownZone:
        return self.table.instants.known_zone(self.timeline)

    @property
    def is_merge_on_read(self) -> bool:
        return self.table.config.table_type is TableType.MERGE_ON_READ

    @property
    def is_single_writer(self) -> bool:
        return self.table.config.single_writer

    @property
    def is_partitioned(self) -> bool:
        return bool(self.table.config.partition_fields)

    @property
    def metadata_partitions(self) -> frozenset[str]:
        return frozenset(self.table.config.metadata_partitions)

    @_Kept
    def clusterings(self) -> frozenset[InstantTime]:
        return clusterings(self.table, self.timeline)

    @_Kept
    def pending_clusterings(self) -> frozenset[InstantTime]:
        return clusterings(self.table, self.timeline.pending())

    @_Kept
    def log_compactions(self) -> frozenset[InstantTime]:
        return log_compactions(self.table, self.timeline)

    @_Kept
    def last_clean(self) -> LastClean | None:
        return read_last_clean(self.table, self.timeline)

    @_Kept
    def archival_holds(self) -> ArchivalHolds:
        return read_archival_holds(self.table, self.timeline)

    @_Kept
    def failed_writes(self) -> tuple[InstantTime, ...]:
        if self.policy is None:
            return ()
        failed = find_recoverable_writes(self.table, self.timeline, self.policy)
        return tuple(instant.time for instant in failed)


def read_archival_holds(table: HoodieTable, timeline: ActiveTimeline) -> ArchivalHolds:
    """What keeps instants in the active timeline, beyond what it shows itself.

    Lists markers and heartbeats, and reads the newest commits up to the first of no service.
    """
    has_metadata_table = bool(table.config.metadata_partitions)
    return ArchivalHolds(
        has_metadata_table=has_metadata_table,
        metadata_compaction=_metadata_compaction(table) if has_metadata_table else None,
        undone=_undone(table, timeline),
        schema_commit=_schema_commit(table, timeline),
    )


def _schema_commit(table: HoodieTable, timeline: ActiveTimeline) -> InstantTime | None:
    """The newest commit of no service, where it names the version of a schema history."""
    for instant in reversed(timeline.of(*COMMIT_ACTIONS).completed().instants):
        note = table.commits.note(instant)
        if not note.is_service:
            return instant.time if note.latest_schema is not None else None
    return None


def _undone(table: HoodieTable, timeline: ActiveTimeline) -> frozenset[InstantTime]:
    """Instants that left markers or a heartbeat, and that the timeline lacks where it would be."""
    evidence = marked_names(table.store) | list_heartbeats(table.store)
    times = (InstantTime(name) for name in evidence if is_instant_time(name))
    start = timeline.start
    return frozenset(
        time for time in times if start is not None and start < time and timeline.find(time) is None
    )


def _metadata_compaction(table: HoodieTable) -> InstantTime | None:
    """The latest completed compaction of the metadata table, a table of its own with one layout."""
    layout = table.timelines.layout
    directory = f"{METADATA_TABLE_PATH}/{layout.directory}"
    names = (info.path.rpartition("/")[2] for info in table.store.list_directory(directory).objects)
    parsed = (layout.parse(name) for name in names)
    compactions = [
        instant.time
        for instant in parsed
        if instant is not None and instant.is_completed and instant.action is Action.COMMIT
    ]
    return max(compactions, default=None)
