"""The archive of layout 2: a row for each completed instant, in an LSM tree of Parquet files.

A row has the times, the action, the bytes of the completed object, and those of the plan where the
action has one. Source: Hudi's TimelineArchiverV2, MetadataConversionUtils.createLSMTimelineInstant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.hudi.services.archival.archive_writer import StoredState, WrittenArchive
from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.merge import MergedArchives
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.lsm_history import HeldHistory, range_and_level
from tideline.hudi.timeline.lsm_writer import (
    append_to_history,
    clean_history,
    merge_history,
    sweep_history,
)
from tideline.storage.lock import Guard, unguarded

_PLANNED = frozenset(
    {Action.CLEAN, Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING, Action.REPLACECOMMIT}
)


@dataclass(frozen=True, slots=True)
class LsmArchiveWriter:
    """See `ArchiveWriter`."""

    table: HoodieTable
    history: HeldHistory

    def recover(self) -> None:
        sweep_history(self.history)

    def still_active(self, active: frozenset[Instant]) -> frozenset[Instant]:
        oldest = min((instant.time for instant in active), default=None)
        if oldest is None:
            return frozenset()
        # Files are merged only after what they hold has left the active timeline.
        archived = (
            self.history.instants(file)
            for file in self.history.files()
            if range_and_level(file)[1] >= oldest and range_and_level(file)[2] == 0
        )
        return frozenset().union(*archived) & active

    def write(
        self,
        states: Mapping[Instant, Sequence[StoredState]],
        config: ArchivalConfig,  # noqa: ARG002
        guard: Guard = unguarded,
    ) -> WrittenArchive:
        rows = [self._row(instant, states[instant]) for instant in sorted(states)]
        guard()
        file = append_to_history(self.history, rows)
        return WrittenArchive(file.path, file.size_bytes, tuple(states))

    def merge(self, config: ArchivalConfig) -> MergedArchives | None:
        limits = config.history
        done = merge_history(
            self.history, files=limits.files_per_merge, bytes_max=limits.merged_bytes_max
        )
        if self.history.has_moved:
            clean_history(self.history, kept=limits.manifests_kept)
        if not done:
            return None
        replaced = tuple(file.path for entry in done for file in entry.replaced)
        return MergedArchives(done[-1].merged.path, done[-1].merged.size_bytes, replaced)

    def _row(self, instant: Instant, states: Sequence[StoredState]) -> dict[str, Any]:
        by_state = {state.instant.state: state for state in states}
        return {
            "instantTime": str(instant.time),
            "completionTime": str(instant.completed_at),
            "action": instant.action.value,
            "metadata": self._body(by_state.get(State.COMPLETED)),
            "plan": self._plan(by_state),
        }

    def _plan(self, states: Mapping[State, StoredState]) -> bytes | None:
        """The inflight object where it says something, else the requested one."""
        for state in (State.INFLIGHT, State.REQUESTED):
            found = states.get(state)
            if found is not None and found.instant.action in _PLANNED:
                body = self._body(found)
                if body:
                    return body
        return None

    def _body(self, state: StoredState | None) -> bytes | None:
        return None if state is None else self.table.store.get(state.info.path)
