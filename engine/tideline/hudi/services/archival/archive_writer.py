"""What archival needs of an archive, whichever form the table's layout gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.merge import MergedArchives
from tideline.hudi.timeline.instant import Instant
from tideline.storage.lock import Guard, unguarded
from tideline.storage.object_store import ObjectInfo


@dataclass(frozen=True, slots=True)
class StoredState:
    """One object of the active timeline."""

    instant: Instant
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class WrittenArchive:
    """One archive file of this run, with the completed instants it holds."""

    path: str
    size_bytes: int
    instants: tuple[Instant, ...]


class ArchiveWriter(Protocol):
    """Writes the archive of one table. Call everything under the table lock."""

    def recover(self) -> None:
        """Finish or undo what a dead run left in the archive."""

    def still_active(self, active: frozenset[Instant]) -> frozenset[Instant]:
        """Those of the completed instants in the active timeline that were archived already."""

    def write(
        self,
        states: Mapping[Instant, Sequence[StoredState]],
        config: ArchivalConfig,
        guard: Guard = unguarded,
    ) -> WrittenArchive:
        """Write instants, given with the objects of all their states, as one file.

        Raises CorruptTableError for a body that cannot be read, ConflictError when another engine
        was faster, ObjectNotFoundError for a body that is gone, and what `guard` raises once all
        bodies are read.
        """

    def merge(self, config: ArchivalConfig) -> MergedArchives | None:
        """Merge small files where that is due."""
