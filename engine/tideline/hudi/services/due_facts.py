"""What decides whether a service is due: facts that can be had without listing the table's files.

The engine reads each fact when it is asked for (`stored_facts`); the operator's planner is given
what was observed. Triggers are pure functions of these facts, so both give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import KnownZone
from tideline.hudi.timeline.zone import TimelineZone


@dataclass(frozen=True, slots=True)
class ArchivalHolds:
    """What keeps instants in the active timeline, beyond what the timeline shows.

    `metadata_compaction` is the latest compaction of the metadata table where one is in use.
    `undone` are instants that another process rolled back and whose writers have not tidied up yet.
    `schema_commit` is the newest write, if it names the version of a schema history.
    """

    has_metadata_table: bool = False
    metadata_compaction: InstantTime | None = None
    undone: frozenset[InstantTime] = frozenset()
    schema_commit: InstantTime | None = None


NO_HOLDS = ArchivalHolds()


class DueFacts(Protocol):
    """One table at the moment `now_ms`, in milliseconds since the epoch.

    `clusterings` are the replacecommits that are clustering, pending or completed,
    `pending_clusterings` only the pending ones; `log_compactions` are the completed delta commits
    since the last compaction that are log compactions. `failed_writes` are pending writes whose
    writers are gone, newest first. `metadata_partitions` are those of the metadata table in use.
    """

    @property
    def now_ms(self) -> int: ...

    @property
    def timeline(self) -> ActiveTimeline: ...

    @property
    def zone(self) -> KnownZone: ...

    @property
    def is_merge_on_read(self) -> bool: ...

    @property
    def is_single_writer(self) -> bool: ...

    @property
    def is_partitioned(self) -> bool: ...

    @property
    def metadata_partitions(self) -> frozenset[str]: ...

    @property
    def clusterings(self) -> frozenset[InstantTime]: ...

    @property
    def pending_clusterings(self) -> frozenset[InstantTime]: ...

    @property
    def log_compactions(self) -> frozenset[InstantTime]: ...

    @property
    def last_clean(self) -> LastClean | None: ...

    @property
    def archival_holds(self) -> ArchivalHolds: ...

    @property
    def failed_writes(self) -> tuple[InstantTime, ...]: ...


def completion_times(
    timeline: ActiveTimeline, zone: TimelineZone
) -> Mapping[InstantTime, InstantTime]:
    """When active commits completed: in layout 1 the store's time stamp of the completed object.

    In digits of the zone, as instants are. Source: Hudi's InstantGeneratorV1, InstantGeneratorV2.
    """
    return {
        instant.time: instant.completion_time or zone.instant_at(made_ms)
        for instant, made_ms in timeline.made_ms.items()
        if instant.is_completed and instant.action in COMMIT_ACTIONS
    }


def next_time(facts: DueFacts) -> InstantTime:
    """The instant that a service planned at this moment would get."""
    return facts.zone.zone.next_time(facts.now_ms, facts.timeline.newest_time())
