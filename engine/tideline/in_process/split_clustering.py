"""Large sorted groups of a clustering in this process: rows go through a folder, part by part.

1. A sample of the sort columns of every slice gives the splits between parts.
2. Every slice is read once, and its rows written to one file of Arrow batches, a batch belonging to
   one part.
3. Every new file gets its parts in order: their batches are read, sorted and written out.

A part is held in memory at a time, by each thread. The folder is one of temporary files, and gone
afterwards; it takes about twice what the slices do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import pyarrow as pa

from tideline.errors import StorageUnavailableError
from tideline.hudi.file_group.cluster_work import SplitGroup
from tideline.hudi.file_group.row_order import RowOrder
from tideline.hudi.file_group.slice_rewrite import (
    RewriteContext,
    clustering_stats,
    plain_rows,
    read_slices,
)
from tideline.hudi.file_group.split_sort import (
    Route,
    SplitFile,
    routed_rows,
    sample_slice,
    sorted_parts,
    split_files,
    split_routes,
)
from tideline.hudi.file_group.stored_rows_handle import spread_rows
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.in_process.service_size import merge_bytes, part_bytes
from tideline.in_process.service_work import ServiceThreads

_COMPRESSION = "lz4"


def cluster_split_groups(
    threads: ServiceThreads, groups: Sequence[SplitGroup], order: RowOrder
) -> list[WriteStat]:
    """Write the rows of the groups to their files.

    Raises as `compact_slice`, and StorageUnavailableError for the folder of temporary files.
    """
    slices = [
        (number, file_slice) for number, group in enumerate(groups) for file_slice in group.slices
    ]
    samples = _samples(threads, groups, slices, order)
    routes = split_routes(groups, order, samples)
    files = list(enumerate(split_files(groups, routes)))
    largest = max(_part_size_bytes(group) for group in groups)
    with _folder() as folder:

        def route_one(task: RewriteContext, numbered: tuple[int, int, FileSlice]) -> _RoutedSlice:
            number, group, file_slice = numbered
            routed = _RoutedSlice(folder / f"{number}.arrow", routes[group])
            routed.write(read_slices(task, threads.store, (file_slice,), give_up=threads.give_up))
            return routed

        numbered = [
            (number, group, file_slice) for number, (group, file_slice) in enumerate(slices)
        ]
        routed = threads.run(numbered, route_one, lambda item: merge_bytes(item[2]))

        def write_one(task: RewriteContext, item: tuple[int, SplitFile]) -> Sequence[WriteStat]:
            number, file = item
            parts = (_part(threads, routed, number, part) for part in _parts(routed, number))
            rows = sorted_parts(parts, file.order)
            written = spread_rows(
                task.handle, threads.store, file.partition, file.file_id_prefix, rows
            )
            return clustering_stats(written, file.partition, 0)

        stats = threads.run(files, write_one, lambda _: part_bytes(largest))
    return [stat for found in stats for stat in found]


class _RoutedSlice:
    """The rows of one slice in a file of Arrow batches, and which part each batch belongs to."""

    def __init__(self, path: Path, route: Route) -> None:
        self._path = path
        self._route = route
        self._places: dict[tuple[int, int], list[int]] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        writer: pa.RecordBatchFileWriter | None = None
        count = 0
        with _named(self._path), pa.OSFile(str(self._path), "wb") as sink:
            for batch in batches:
                for file, part, rows in routed_rows(plain_rows(batch), self._route):
                    if writer is None:
                        options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
                        writer = pa.ipc.new_file(sink, rows.schema, options=options)
                    for routed in rows.combine_chunks().to_batches():
                        writer.write_batch(routed)
                        self._places.setdefault((file, part), []).append(count)
                        count += 1
            if writer is not None:
                writer.close()

    def parts(self, file: int) -> set[int]:
        """The parts of a file that have rows of this slice."""
        return {part for number, part in self._places if number == file}

    def read(self, file: int, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        numbers = self._places.get((file, part), ())
        if not numbers:
            return
        with _named(self._path), pa.OSFile(str(self._path), "rb") as source:
            reader = pa.ipc.open_file(source)
            for number in numbers:
                yield reader.get_batch(number)


def _samples(
    threads: ServiceThreads,
    groups: Sequence[SplitGroup],
    slices: Sequence[tuple[int, FileSlice]],
    order: RowOrder,
) -> dict[int, list[pa.Table]]:
    def sample_one(task: RewriteContext, item: tuple[int, FileSlice]) -> tuple[int, pa.Table]:
        group, file_slice = item
        threads.give_up()
        return group, sample_slice(task, threads.store, file_slice, groups[group], order.columns)

    samples: dict[int, list[pa.Table]] = {}
    for group, rows in threads.run(slices, sample_one, lambda item: merge_bytes(item[1])):
        samples.setdefault(group, []).append(rows)
    return samples


def _parts(routed: Sequence[_RoutedSlice], file: int) -> list[int]:
    return sorted(set().union(*(routed_slice.parts(file) for routed_slice in routed)))


def _part(
    threads: ServiceThreads, routed: Sequence[_RoutedSlice], file: int, part: int
) -> Iterator[pa.RecordBatch]:
    for routed_slice in routed:
        threads.give_up()
        yield from routed_slice.read(file, part)


def _part_size_bytes(group: SplitGroup) -> int:
    return sum(file_slice.size_bytes for file_slice in group.slices) // (group.files * group.parts)


@contextmanager
def _folder() -> Iterator[Path]:
    with _named(Path(gettempdir())):
        folder = TemporaryDirectory(prefix="tideline-clustering-")
    with folder as name:
        yield Path(name)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What goes wrong with temporary files, under their name."""
    try:
        yield
    except OSError as error:
        raise StorageUnavailableError(
            "rows that are sorted in parts go through a folder for temporary files, which failed; "
            "TMPDIR names another",
            path=path,
            value=error,
        ) from error
