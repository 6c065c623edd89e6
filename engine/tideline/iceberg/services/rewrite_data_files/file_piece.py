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
class FilePiece:
    """A data file, or those row groups of it that begin in `part`."""

    task: FileScanTask
    part: ByteRange | None

    @property
    def size_bytes(self) -> int:
        return self.task.data_file.file_size_bytes if self.part is None else self.part.length


def split_group(group: FileGroup) -> list[tuple[FilePiece, ...]]:
    """The group's files in packs of about one new file each."""
    if group.outputs_expected == 1:
        return [whole_files(group)]
    return packed_pieces(group, group.split_size_bytes)


def packed_pieces(group: FileGroup, size_bytes: int) -> list[tuple[FilePiece, ...]]:
    """The group's files cut at their row groups, in packs of about so many bytes."""
    pieces = [piece for task in group.tasks for piece in _pieces(task, size_bytes)]
    packs = pack(
        pieces,
        lambda piece: piece.size_bytes,
        size_bytes,
        lookback=SPLIT_LOOKBACK,
        largest_first=True,
    )
    return [tuple(_joined(pieces)) for pieces in packs]


def whole_files(group: FileGroup) -> tuple[FilePiece, ...]:
    """All files of a group, uncut."""
    return tuple(FilePiece(task, None) for task in group.tasks)


def _pieces(task: FileScanTask, split_size_bytes: int) -> Iterator[FilePiece]:
    """A file cut at its row groups; at equal distances when they are not known."""
    size_bytes = task.data_file.file_size_bytes
    offsets = task.data_file.split_offsets or ()
    if not offsets or list(offsets) != sorted(set(offsets)) or offsets[-1] >= size_bytes:
        offsets = tuple(range(0, size_bytes, split_size_bytes))
    cuts = (0, *offsets[1:], size_bytes)
    for start, end in pairwise(cuts):
        yield FilePiece(task, ByteRange(start, end - start))


def _joined(pieces: Sequence[FilePiece]) -> Iterator[FilePiece]:
    """Neighbours within a file made one piece."""
    last: FilePiece | None = None
    for piece in pieces:
        if last is not None and _adjoin(last, piece):
            assert last.part is not None and piece.part is not None
            joined = ByteRange(last.part.start, last.part.length + piece.part.length)
            last = FilePiece(last.task, joined)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _adjoin(one: FilePiece, other: FilePiece) -> bool:
    if one.task is not other.task or one.part is None or other.part is None:
        return False
    return one.part.start + one.part.length == other.part.start
