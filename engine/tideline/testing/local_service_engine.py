"""A service engine inside this process, for crash tests: everything but Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tideline.hudi.services.clustering.plan import ClusteringPlan
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.services.engine import ServiceWork
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

    def compact(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        context = self._context(work)
        stats = [
            compact_slice(context.for_task(number, 0, 0), self.table.store, item.slice)
            for number, item in enumerate(operations)
        ]
        return self._done(stats)

    def compact_logs(
        self, work: ServiceWork, operations: Sequence[CompactionOperation]
    ) -> Sequence[WriteStat]:
        context = self._context(work)
        stats: list[WriteStat] = []
        for number, item in enumerate(operations):
            stats += compact_log(context.for_task(number, 0, 0), self.table.store, item.slice)
        return self._done(stats)

    def cluster(self, work: ServiceWork, plan: ClusteringPlan) -> Sequence[WriteStat]:
        context = self._context(work)
        order = RowOrder(plan.sort_columns, plan.layout) if plan.sort_columns else None
        stats: list[WriteStat] = []
        for number, group in enumerate(plan.groups):
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
