"""The product's service engine, with one thread and a moment in which others act."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideline.hudi.services.engine import RowArrangement, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.in_process.service_engine import InProcessServiceEngine


@dataclass(frozen=True, slots=True)
class ObservedServiceEngine:
    """See `tideline.hudi.services.engine.ServiceEngine`.

    `after_files` is called when all files are written, and before they are committed.
    """

    table: HoodieTable
    after_files: Callable[[], object] = lambda: None

    def compact(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        return self._observed(self._engine.compact(work, slices))

    def compact_logs(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        return self._observed(self._engine.compact_logs(work, slices))

    def cluster(self, work: ServiceWork, arrangement: RowArrangement) -> Sequence[WriteStat]:
        return self._observed(self._engine.cluster(work, arrangement))

    @property
    def _engine(self) -> InProcessServiceEngine:
        return InProcessServiceEngine(self.table, threads=1)

    def _observed(self, stats: Sequence[WriteStat]) -> Sequence[WriteStat]:
        self.after_files()
        return stats
