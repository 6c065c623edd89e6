"""Sorting the rows of a large clustering group in parts that any engine can carry about.

1. `sample_slice`: evenly spaced rows of each slice, with the sort columns alone.
2. `split_routes`: the samples of a group give the splits between its parts, and so its `Route`.
3. `routed_rows`: the rows of a slice, those of each part together.
4. `sorted_parts`: the parts of one file in order, each sorted on its own.

How parts get from 3 to 4 is the engine's: through Spark's shuffle, or through a folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tideline.hudi.file_group.cluster_work import SplitGroup
from tideline.hudi.file_group.file_slice_merge import FileSliceMerge
from tideline.hudi.file_group.row_order import RowOrder
from tideline.hudi.file_group.slice_rewrite import RewriteContext, sorted_rows
from tideline.hudi.table.file_group import FileSlice
from tideline.sorting.sorted_parts import part_numbers, split_keys
from tideline.storage.object_store import ObjectStore

_SAMPLE_ROWS_PER_PART = 2_000


@dataclass(frozen=True, slots=True)
class Route:
    """Which file and part each row of a group goes to: its splits, and its first file's number.

    Files are numbered through all groups of a run, parts within their file.
    """

    order: RowOrder
    splits: pa.Table
    first_file: int
    parts: int


@dataclass(frozen=True, slots=True)
class SplitFile:
    """One new file of a group: its partition, the prefix of its file id, the order of its rows."""

    partition: str
    file_id_prefix: str
    order: RowOrder


def sample_slice(
    context: RewriteContext,
    store: ObjectStore,
    file_slice: FileSlice,
    group: SplitGroup,
    columns: Sequence[str],
) -> pa.Table:
    """Evenly spaced rows of a slice of the group. Raises as `compact_slice`."""
    merge = FileSliceMerge(store, file_slice, context.slices, columns)
    rows = pa.Table.from_batches(list(merge.batches()), schema=merge.schema)
    wanted = max(1, _SAMPLE_ROWS_PER_PART * group.files * group.parts // len(group.slices))
    step = max(1, rows.num_rows // wanted)
    return rows.take(pa.array(np.arange(0, rows.num_rows, step)))


def split_routes(
    groups: Sequence[SplitGroup], order: RowOrder, samples: Mapping[int, Sequence[pa.Table]]
) -> list[Route]:
    """The route of every group, by the samples of its slices."""
    routes, first_file = [], 0
    for number, group in enumerate(groups):
        sample = pa.concat_tables(samples[number])
        with_boundaries = order.sampled(sample)
        splits = split_keys(with_boundaries.keys(sample), group.files * group.parts)
        routes.append(Route(with_boundaries, splits, first_file, group.parts))
        first_file += group.files
    return routes


def split_files(groups: Sequence[SplitGroup], routes: Sequence[Route]) -> list[SplitFile]:
    """The files of all groups, by their numbers."""
    return [
        SplitFile(group.slices[0].group.partition, prefix, route.order)
        for group, route in zip(groups, routes, strict=True)
        for prefix in group.file_id_prefixes
    ]


def routed_rows(rows: pa.RecordBatch, route: Route) -> Iterator[tuple[int, int, pa.Table]]:
    """The rows as file, part, and the rows that go there, which stay in their order."""
    table = pa.Table.from_batches([rows])
    numbers = part_numbers(route.order.keys(table), route.splits)
    order = np.argsort(numbers, kind="stable")
    arranged, ordered = table.take(pa.array(order)), numbers[order]
    starts = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), table.num_rows]
    for start, end in pairwise(starts):
        if start < end:
            file, part = divmod(int(ordered[start]), route.parts)
            yield route.first_file + file, part, arranged.slice(start, end - start)


def sorted_parts(
    parts: Iterable[Iterable[pa.RecordBatch]], order: RowOrder
) -> Iterator[pa.RecordBatch]:
    """The rows of the parts, one part after the other; one at a time is held in memory."""
    for part in parts:
        yield from sorted_rows(part, order)
