"""The files that a pending plan names, looked up before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tideline.errors import CorruptTableError
from tideline.hudi.services.audit import FileDone
from tideline.hudi.services.service_transaction import require_pending
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.instant_time import InstantTime


def with_sizes(
    table: HoodieTable, slices: Iterable[FileSlice], instant: InstantTime
) -> tuple[FileSlice, ...]:
    """The slices with the sizes their files have now.

    Raises CorruptTableError naming the first file that is missing, ConflictError when that is so
    because another process has done what was planned.
    """
    wanted = tuple(slices)
    listing = table.files.listing({file_slice.group.partition for file_slice in wanted})
    sizes = {partition: dict(files) for partition, files in listing.items()}
    return tuple(
        _sized(table, file_slice, sizes[file_slice.group.partition], instant)
        for file_slice in wanted
    )


def files_read(slices: Iterable[FileSlice], what: str = "read") -> tuple[FileDone, ...]:
    """The slices' files for an audit."""
    return tuple(
        FileDone(file.path, what, file.size_bytes)
        for file_slice in slices
        for file in (
            *((file_slice.base_file,) if file_slice.base_file else ()),
            *file_slice.log_files,
        )
    )


def _sized(
    table: HoodieTable, file_slice: FileSlice, sizes: Mapping[str, int], instant: InstantTime
) -> FileSlice:
    base = file_slice.base_file
    for file in (*((base,) if base else ()), *file_slice.log_files):
        if file.name not in sizes:
            # Cleaning may take what a plan names as soon as its work is done.
            require_pending(table, table.timeline(), instant)
            raise CorruptTableError(
                "a file that the plan names is missing; put it back from a copy, or restore to a "
                "savepoint from before",
                table=table.location.uri,
                instant=instant,
                path=file.path,
            )
    return FileSlice(
        file_slice.group,
        file_slice.base_instant,
        replace(base, size_bytes=sizes[base.name]) if base else None,
        tuple(replace(log, size_bytes=sizes[log.name]) for log in file_slice.log_files),
    )
