"""Rewriting the file groups of an Iceberg table on Spark.

Groups without an order, and those whose rows a task can sort in memory, need no shuffle: each pack
of files is one task, which answers with its new data files. The others are sorted by a shuffle, or,
where Spark is threads of this machine's anyway, through its disk.

A group that fails is an answer, not an error: its new files are deleted, other groups continue.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tideline.iceberg.services.rewrite_data_files.execute import (
    RewriteContext,
    group_order,
)
from tideline.iceberg.services.rewrite_data_files.group_outcome import (
    GroupFailed,
    GroupOutcome,
    group_outcomes,
)
from tideline.iceberg.services.rewrite_data_files.in_process import sorted_here
from tideline.iceberg.services.rewrite_data_files.pack import Pack, packs_of
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.table.file_io import FileIO
from tideline.spark.iceberg.sorted_rewrite import SortedRewrite
from tideline.spark.iceberg.tasks import answer, attempt_number, collected, numbered

PART_BYTES_MAX = 96 * 1024 * 1024
"""Stored bytes that a task sorts at once; in memory they are several times as many."""


def execute_groups(
    spark: SparkSession,
    io: FileIO,
    context: RewriteContext,
    groups: Sequence[FileGroup],
    *,
    groups_per_job: int | None = None,
    part_bytes_max: int = PART_BYTES_MAX,
    shuffles: bool | None = None,
) -> Generator[GroupOutcome]:
    """Rewrite the groups, so many in one Spark job; each is answered once its job is done.

    Large ordered groups are sorted by a shuffle unless Spark is local, or as `shuffles` says.
    """
    if shuffles is None:
        shuffles = not (spark.sparkContext.master or "").startswith("local")
    size = groups_per_job or max(1, len(groups))
    for start in range(0, len(groups), size):
        some = groups[start : start + size]
        orders = [group_order(context, group) for group in some]
        is_large = [
            order is not None and group.input_bytes > part_bytes_max
            for group, order in zip(some, orders, strict=True)
        ]
        small = [group for group, large in zip(some, is_large, strict=True) if not large]
        yield from _answered(io, small, partial(_write_packs, spark, io, context, small))
        for group, order, large in zip(some, orders, is_large, strict=True):
            if large and order is not None and not shuffles:
                yield sorted_here(io, context, group, order, part_bytes=part_bytes_max // 4)
            elif large and order is not None:
                shuffle = SortedRewrite(spark, io, context, group, order, part_bytes_max)
                yield from _answered(io, [group], shuffle.answers)


def _answered(
    io: FileIO, groups: Sequence[FileGroup], run: Callable[[], list[tuple[int, Any]]]
) -> Generator[GroupOutcome]:
    if not groups:
        return
    try:
        answers = run()
    except (PySparkException, Py4JError) as error:
        for group in groups:
            yield GroupFailed(group.index, error)
        return
    yield from group_outcomes(io, groups, answers)


def _write_packs(
    spark: SparkSession, io: FileIO, context: RewriteContext, groups: Sequence[FileGroup]
) -> list[tuple[int, Any]]:
    packs = packs_of(context, groups)
    return collected(numbered(spark, len(packs)), WritePacks(io, context, packs))


@dataclass(frozen=True, slots=True)
class WritePacks:
    """Task function: numbers of packs in, their new data files out."""

    io: FileIO
    context: RewriteContext
    packs: Sequence[Pack]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                pack = self.packs[number]
                write = partial(pack.write, self.io, self.context, attempt=attempt_number())
                yield answer(pack.group, write)
