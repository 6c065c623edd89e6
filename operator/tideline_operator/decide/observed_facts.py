"""What was observed of a table, in the form that the triggers of its services take. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.services.due_facts import ArchivalHolds
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import KnownZone
from tideline_operator.decide.observed import ObservedTable

_MERGE_ON_READ = "MERGE_ON_READ"


@dataclass(frozen=True, slots=True)
class ObservedFacts:
    """See `tideline.hudi.services.due_facts.DueFacts`."""

    table: ObservedTable
    now_ms: int

    @property
    def timeline(self) -> ActiveTimeline:
        return self.table.history.timeline

    @property
    def zone(self) -> KnownZone:
        return self.table.history.zone

    @property
    def is_merge_on_read(self) -> bool:
        return is_merge_on_read(self.table)

    @property
    def is_single_writer(self) -> bool:
        return self.table.is_single_writer

    @property
    def is_partitioned(self) -> bool:
        return bool(self.table.partition_by)

    @property
    def metadata_partitions(self) -> frozenset[str]:
        return frozenset(TableConfig(self.table.history.properties).metadata_partitions)

    @property
    def clusterings(self) -> frozenset[InstantTime]:
        return self.table.history.clusterings

    @property
    def pending_clusterings(self) -> frozenset[InstantTime]:
        pending = {instant.time for instant in self.timeline.pending()}
        return self.clusterings & pending

    @property
    def log_compactions(self) -> frozenset[InstantTime]:
        return self.table.history.log_compactions

    @property
    def last_clean(self) -> LastClean | None:
        return self.table.history.last_clean

    @property
    def archival_holds(self) -> ArchivalHolds:
        return self.table.history.archival_holds

    @property
    def failed_writes(self) -> tuple[InstantTime, ...]:
        unfinished = (
            instant for instant in self.table.pending if instant.action != Action.ROLLBACK.value
        )
        dead = (InstantTime(instant.time) for instant in unfinished if instant.is_dead)
        return tuple(sorted(dead, reverse=True))


def is_merge_on_read(table: ObservedTable) -> bool:
    """Whether the table has log files."""
    return table.table_type == _MERGE_ON_READ
