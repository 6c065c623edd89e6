"""What was seen of one table, as values: the planner's only knowledge of the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideline.ingest.checkpoint import Checkpoint
from tideline.ingest.landing import Landing


@dataclass(frozen=True, slots=True)
class ObservedPending:
    """An instant under way, or left behind.

    `dead_at_ms` is when its heartbeat counts as dead if it is not renewed; None for what no
    heartbeat decides, such as table services.
    """

    time: str
    action: str
    state: str
    is_dead: bool = False
    dead_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table that exists: how it was created, and its timeline in short."""

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


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something could not be observed."""

    reason: str
    message: str
    exit_code: int
    is_transient: bool


@dataclass(frozen=True, slots=True)
class ObservedLanding:
    """A landing prefix that was listed, or why it could not be.

    `settle_ms` is how old a file must be to count as written to its end.
    """

    landing: Landing = field(default_factory=Landing)
    settle_ms: int = 0
    exists: bool = True
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at a table. `landings` holds only those that were due to be looked at.

    `running` are the operations that are being carried out right now.
    """

    table: ObservedTable | None = None
    landings: Mapping[str, ObservedLanding] = field(default_factory=dict)
    running: frozenset[str] = frozenset()
    problem: Problem | None = None
