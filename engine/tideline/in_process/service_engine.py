"""The service engine inside this process: a thread for each processor, rows in Arrow.

Work starts with the largest slices, as many at once as memory is meant for. The rows of a
large sorted group go through a folder; see `split_clustering`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tideline.hudi.file_group.cluster_work import TaskSlices, cut_groups
from tideline.hudi.file_group.row_order import RowOrder
from tideline.hudi.file_group.slice_rewrite import (
    RewriteContext,
    cluster_slices,
    compact_log,
    compact_slice,
)
from tideline.hudi.services.engine import RowArrangement, ServiceWork
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.in_process.service_size import FULL_BUDGET, MemoryBudget, merge_bytes, task_bytes
from tideline.in_process.service_work import ServiceThreads
from tideline.in_process.split_clustering import cluster_split_groups
from tideline.machine import processors


@dataclass(frozen=True, slots=True)
class InProcessServiceEngine:
    """See `tideline.hudi.services.engine.ServiceEngine`.

    With one of `threads` all requests come in one order. What has no `budget` is not refused here:
    `why_spark` says so beforehand.
    """

    table: HoodieTable
    threads: int | None = None
    budget: MemoryBudget = FULL_BUDGET

    def compact(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        threads = self._open(work)

        def compact_one(task: RewriteContext, file_slice: FileSlice) -> WriteStat:
            return compact_slice(task, threads.store, file_slice, give_up=threads.give_up)

        return threads.run(_largest_first(slices), compact_one, merge_bytes)

    def compact_logs(self, work: ServiceWork, slices: Sequence[FileSlice]) -> Sequence[WriteStat]:
        threads = self._open(work)

        def compact_one(task: RewriteContext, file_slice: FileSlice) -> Sequence[WriteStat]:
            return compact_log(task, threads.store, file_slice, give_up=threads.give_up)

        return _joined(threads.run(_largest_first(slices), compact_one, merge_bytes))

    def cluster(self, work: ServiceWork, arrangement: RowArrangement) -> Sequence[WriteStat]:
        threads = self._open(work)
        if arrangement.target_file_bytes is not None:
            threads.context = threads.context.with_file_size(arrangement.target_file_bytes)
        order = None
        if arrangement.sort_columns:
            order = RowOrder(arrangement.sort_columns, arrangement.layout)
        cut = cut_groups(
            arrangement.groups,
            is_ordered=order is not None,
            instant=work.instant,
            part_bytes_max=self.budget.part_bytes_max,
        )

        def cluster_one(task: RewriteContext, task_slices: TaskSlices) -> Sequence[WriteStat]:
            return cluster_slices(
                task,
                threads.store,
                task_slices.slices,
                task_slices.file_id_prefix,
                order=order,
                give_up=threads.give_up,
            )

        def held_bytes(task_slices: TaskSlices) -> int:
            return task_bytes(task_slices, is_sorted=order is not None)

        stats = _joined(threads.run(cut.whole, cluster_one, held_bytes))
        if order is not None and cut.split:
            stats += cluster_split_groups(threads, cut.split, order)
        return stats

    def _open(self, work: ServiceWork) -> ServiceThreads:
        threads = self.threads or processors()
        return ServiceThreads(self.table, work, threads, self.budget.held_bytes_max)


def _largest_first(slices: Sequence[FileSlice]) -> list[FileSlice]:
    return sorted(slices, key=lambda file_slice: file_slice.size_bytes, reverse=True)


def _joined(found: Iterable[Sequence[WriteStat]]) -> list[WriteStat]:
    return [stat for stats in found for stat in stats]
