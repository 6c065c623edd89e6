"""A service engine inside this process, for crash tests: everything but Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideline.hudi.services.engine import RowArrangement, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.write.cluster_work import WholePiece, cut_group
from tideline.hudi.write.row_order import RowOrder
from tideline.hudi.write.slice_rewrite import (
    RewriteContext,
    cluster_slices,
    compact_log,
    compact_slice,
)


@dataclass(frozen=True, slots=True)
class LocalServiceEngine:
    """See `tideline.hudi.services.engine.ServiceEngine`.

    `after_files` lets others act in between.
    """

    table: HoodieTable
    after_files: Callable[[], object] | None = None

    def compact(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        context = self._context(work)
        stats = [
            compact_slice(context.for_task(number, 0, 0), self.table.store, piece)
            for number, piece in enumerate(slices)
        ]
        return self._done(stats)

    def compact_logs(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        context = self._context(work)
        stats: list[WriteStat] = []
        for number, piece in enumerate(slices):
            stats += compact_log(context.for_task(number, 0, 0), self.table.store, piece)
        return self._done(stats)

    def cluster(self, work: ServiceWork, arrangement: RowArrangement) -> Sequence[WriteStat]:
        context = self._context(work)
        order = (
            RowOrder(arrangement.sort_columns, arrangement.layout)
            if arrangement.sort_columns
            else None
        )
        stats: list[WriteStat] = []
        for number, group in enumerate(arrangement.groups):
            pieces = cut_group(
                group.slices, 1, is_ordered=order is not None, instant=work.instant, group=number
            )
            assert isinstance(pieces, tuple), "groups here are small"
            for piece in pieces:
                stats += self._cluster(context.for_task(number, 0, 0), piece, order)
        return self._done(stats)

    def _cluster(
        self, context: RewriteContext, piece: WholePiece, order: RowOrder | None
    ) -> Sequence[WriteStat]:
        store = self.table.store
        return cluster_slices(context, store, piece.slices, piece.file_id_prefix, order=order)

    def _context(self, work: ServiceWork) -> RewriteContext:
        return RewriteContext.of(
            self.table, work.timeline, work.instant, work.schema_json, work.config
        )

    def _done(self, stats: list[WriteStat]) -> Sequence[WriteStat]:
        if self.after_files is not None:
            self.after_files()
        return stats
