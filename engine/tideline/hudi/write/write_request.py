"""What a write is asked to commit, and what became of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tideline.bounded.given_texts import require_texts
from tideline.hudi.commit.outcome import Committed
from tideline.hudi.recovery.execute import RolledBack
from tideline.hudi.table.schema_change import NO_CHANGE, SchemaChange
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.config import WriteConfig
from tideline.hudi.write.matched_rows import MatchedRows
from tideline.hudi.write.token import TokenSearch
from tideline.hudi.write.write_operation import WriteOperation
from tideline.resource_usage import NOTHING, ResourceUsage

Requirement = Callable[[ActiveTimeline], None]
"""Asked under the table lock, just before a commit completes; raises to prevent it."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What is to be committed, whichever engine moves the rows.

    `matched`: the batch is what a condition matched, to be changed where it is stored.
    """

    operation: WriteOperation
    config: WriteConfig
    schema_json: str
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    require: Requirement | None = None
    token: TokenSearch | None = None
    matched: MatchedRows | None = None
    schema_change: SchemaChange = NO_CHANGE

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        require_texts(self.extra_metadata)


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What the data part of a write produced; the transaction still has to commit it."""

    stats: Sequence[WriteStat]
    replaced: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """An earlier write with the request's token took place: nothing is written."""

    committed: Committed
    rolled_back: tuple[RolledBack, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteDone:
    """A write that is committed. `notes` say what a person should know.

    `is_repeat`: an earlier write with the same token made the commit. `keys_unique_in`:
    "partition" or "table", what an upsert of a partitioned table kept unique.
    """

    operation: WriteOperation
    committed: Committed
    rolled_back: tuple[RolledBack, ...]
    seconds: float
    spent: ResourceUsage = NOTHING
    notes: tuple[str, ...] = ()
    is_repeat: bool = False
    keys_unique_in: str | None = None
    schema_change: SchemaChange = NO_CHANGE
