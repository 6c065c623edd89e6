"""The packs of a rewrite: what one task or thread writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tideline.iceberg.data.partitioned_writer import Output
from tideline.iceberg.data.row_order import RowOrder
from tideline.iceberg.manifest.manifest_entry import DataFile
from tideline.iceberg.services.rewrite_data_files.execute import (
    RewriteContext,
    group_order,
    output,
    write_file_splits,
)
from tideline.iceberg.services.rewrite_data_files.file_split import (
    FileSplit,
    split_group,
    whole_files,
)
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class Pack:
    """File splits of a group that become about one new file, or `files` equal ones when sorted."""

    group: int
    target: Output
    file_splits: tuple[FileSplit, ...]
    order: RowOrder | None
    files: int

    @property
    def size_bytes(self) -> int:
        return sum(file_split.size_bytes for file_split in self.file_splits)

    def write(self, io: FileIO, context: RewriteContext, *, attempt: int) -> tuple[DataFile, ...]:
        """The new files; when that fails none remains. Raises as `write_file_splits`."""
        prefix = f"{self.target.name_prefix}-{attempt}"
        target = replace(self.target, name_prefix=prefix)
        return write_file_splits(io, context, target, self.file_splits, self.order, self.files)


def packs_of(context: RewriteContext, groups: Sequence[FileGroup]) -> list[Pack]:
    """All packs of some groups, the largest first. Ordered rows of a group are one pack."""
    packs: list[Pack] = []
    for group in groups:
        order = group_order(context, group)
        split_packs = split_group(group) if order is None else [whole_files(group)]
        packs += [
            Pack(group.index, output(context, group, f"{number:05d}"), pack, order,
                 group.outputs_expected)
            for number, pack in enumerate(split_packs)
        ]  # fmt: skip
    return sorted(packs, key=lambda pack: pack.size_bytes, reverse=True)
