"""What was observed of one table, as values: all that the planner knows of the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tideline.hudi.services.due_facts import NO_HOLDS, ArchivalHolds
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.services.registry import TableService
from tideline.hudi.table.file_counts import FileCounts
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import KNOWN_UTC, KnownZone
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.source import Available
from tideline_operator.decide.adoption import Adoption
from tideline_operator.decide.observed_iceberg import ObservedIceberg

LOCATION_TAKEN = "LocationTaken"
"""Why a table cannot be where it is declared: the place belongs to another one."""


class WriterState(Enum):
    """What is known of a writer in addition to its heartbeat.

    ENDING: its driver has ended, but a pod that wrote for it may still run. GONE: all have ended.
    """

    UNKNOWN = "unknown"
    ENDING = "ending"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ObservedPending:
    """An instant under way, or left behind.

    `dead_at_ms` is when its heartbeat counts as dead if it is not renewed; None where there is no
    heartbeat. `writer_state` is what else is known of the heartbeat's `writer`. A dead write
    is rolled back; a table `service` that `is_idle` has a plan that no process runs, to be resumed.
    """

    time: str
    action: str
    state: str
    is_dead: bool = False
    dead_at_ms: int | None = None
    service: TableService | None = None
    is_idle: bool = False
    writer: str = ""
    writer_state: WriterState = WriterState.UNKNOWN


@dataclass(frozen=True, slots=True)
class TableHistory:
    """The active timeline, and what its instants say that decides which service is due.

    `properties` are the table's own settings. `clusterings` are the replacecommits that are
    clustering, pending or completed; `log_compactions` the delta commits that are log compactions.
    `lacks_logs` says for certain that the table has no log files.
    `archival_holds` are known where archival would be due without them. `ingests` are commits of
    our ingests since the last restore, where that matters. `zone` is that of the instants.
    """

    timeline: ActiveTimeline = field(default_factory=ActiveTimeline)
    properties: Mapping[str, str] = field(default_factory=dict)
    clusterings: frozenset[InstantTime] = frozenset()
    log_compactions: frozenset[InstantTime] = frozenset()
    lacks_logs: bool = False
    last_clean: LastClean | None = None
    archival_holds: ArchivalHolds = NO_HOLDS
    ingests: frozenset[InstantTime] = frozenset()
    zone: KnownZone = KNOWN_UTC


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table that exists: how it was created, and its timeline.

    `identity` distinguishes it from other tables. `savepoints` are instants by the name of their
    savepoint. `counts` is None when the files were not counted in this look; `adoption` says on
    what grounds the table is worked on.
    """

    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    table_type: str
    hive_style: bool = False
    url_encode: bool = False
    latest: str | None = None
    latest_action: str | None = None
    completed: int = 0
    pending: tuple[ObservedPending, ...] = ()
    checkpoints: Mapping[str, Checkpoint] = field(default_factory=dict)
    is_single_writer: bool = False
    history: TableHistory = field(default_factory=TableHistory)
    savepoints: Mapping[str, str] = field(default_factory=dict)
    counts: FileCounts | None = None
    identity: str = ""
    adoption: Adoption = field(default_factory=Adoption)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something could not be observed."""

    reason: str
    message: str
    exit_code: int
    is_transient: bool


@dataclass(frozen=True, slots=True)
class ObservedSource:
    """What a look at a source found, or why there was none."""

    available: Available | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at a table, which is `table` or, in Iceberg's format, `iceberg`.

    `sources` holds only those that were due to be looked at. `running` are the operations under
    way. `lacks_bucket` when there is no bucket, and creating the table may create it. `refused`
    when there is a table that must not be worked on, so that nothing else was looked at.
    """

    table: ObservedTable | None = None
    sources: Mapping[str, ObservedSource] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    problem: Problem | None = None
    lacks_bucket: bool = False
    iceberg: ObservedIceberg | None = None
    refused: Adoption | None = None

    @property
    def checkpoints(self) -> Mapping[str, Checkpoint]:
        """How far ingests have read, by name; empty without a table."""
        table = self.table or self.iceberg
        return {} if table is None else table.checkpoints

    @property
    def has_table(self) -> bool:
        """Whether there is a table at the place."""
        return self.table is not None or self.iceberg is not None
