"""How many files a table has, as readers see it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.table.file_system_view import FileSystemView

SMALL_FILE = "hoodie.parquet.small.file.limit"


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The newest slices. Small are base files below the limit that inserts fill."""

    partitions: int = 0
    file_groups: int = 0
    base_files: int = 0
    small_files: int = 0
    log_files: int = 0
    groups_with_logs: int = 0
    change_logs: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, view: FileSystemView, small_bytes: int) -> FileCounts:
        """Of the newest slices of a view."""
        slices = [file_slice for part in view.partitions for file_slice in view.latest_slices(part)]
        bases = [file_slice.base_file for file_slice in slices if file_slice.base_file is not None]
        return cls(
            partitions=len({file_slice.partition for file_slice in slices}),
            file_groups=len(slices),
            base_files=len(bases),
            small_files=sum(base.size_bytes < small_bytes for base in bases),
            log_files=sum(len(file_slice.log_files) for file_slice in slices),
            groups_with_logs=sum(bool(file_slice.log_files) for file_slice in slices),
            change_logs=sum(len(file_slice.cdc_files) for file_slice in slices),
            size_bytes=sum(file_slice.size_bytes for file_slice in slices),
        )
