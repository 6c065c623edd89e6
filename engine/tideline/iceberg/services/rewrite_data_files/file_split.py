"""The files of a group cut at their row groups, in packs of about one new file each.

Source: Iceberg's `TableScanUtil.planTasks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tideline.iceberg.bin_pack import pack
from tideline.iceberg.data.parquet_rows import ByteRange
from tideline.iceberg.scan.task import FileScanTask
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup

SPLIT_LOOKBACK = 10


@dataclass(frozen=True, slots=True)
class FileSplit:
    """A data file, or those row groups of it that begin in `part`."""

    task: FileScanTask
    part: ByteRange | None

    @property
    def size_bytes(self) -> int:
        return self.task.data_file.file_size_bytes if self.part is None else self.part.length


def split_group(group: FileGroup) -> list[tuple[FileSplit, ...]]:
    """The group's files in packs of about one new file each."""
    if group.outputs_expected == 1:
        return [whole_files(group)]
    return packed_splits(group, group.split_size_bytes)


def packed_splits(group: FileGroup, size_bytes: int) -> list[tuple[FileSplit, ...]]:
    """The group's files cut at their row groups, in packs of about so many bytes."""
    file_splits = [
        file_split for task in group.tasks for file_split in _file_splits(task, size_bytes)
    ]
    packs = pack(
        file_splits,
        lambda file_split: file_split.size_bytes,
        size_bytes,
        lookback=SPLIT_LOOKBACK,
        largest_first=True,
    )
    return [tuple(_joined(file_splits)) for file_splits in packs]


def whole_files(group: FileGroup) -> tuple[FileSplit, ...]:
    """All files of a group, uncut."""
    return tuple(FileSplit(task, None) for task in group.tasks)


def _file_splits(task: FileScanTask, split_size_bytes: int) -> Iterator[FileSplit]:
    """A file cut at its row groups; at equal distances when they are not known."""
    size_bytes = task.data_file.file_size_bytes
    offsets = task.data_file.split_offsets or ()
    if not offsets or list(offsets) != sorted(set(offsets)) or offsets[-1] >= size_bytes:
        offsets = tuple(range(0, size_bytes, split_size_bytes))
    cuts = (0, *offsets[1:], size_bytes)
    for start, end in pairwise(cuts):
        yield FileSplit(task, ByteRange(start, end - start))


def _joined(file_splits: Sequence[FileSplit]) -> Iterator[FileSplit]:
    """Neighbours within a file made one split."""
    last: FileSplit | None = None
    for file_split in file_splits:
        if last is not None and _adjoin(last, file_split):
            assert last.part is not None and file_split.part is not None
            joined = ByteRange(last.part.start, last.part.length + file_split.part.length)
            last = FileSplit(last.task, joined)
            continue
        if last is not None:
            yield last
        last = file_split
    if last is not None:
        yield last


def _adjoin(left: FileSplit, right: FileSplit) -> bool:
    if left.task is not right.task or left.part is None or right.part is None:
        return False
    return left.part.start + left.part.length == right.part.start
