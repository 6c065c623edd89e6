"""What merging a file slice costs, as plans record it. Source: Hudi's FileSliceMetricUtils."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tideline.hudi.table.file_group import FileSlice

TOTAL_LOG_FILES = "TOTAL_LOG_FILES"
TOTAL_LOG_FILES_SIZE = "TOTAL_LOG_FILES_SIZE"
TOTAL_IO_READ_MB = "TOTAL_IO_READ_MB"
TOTAL_IO_WRITE_MB = "TOTAL_IO_WRITE_MB"
TOTAL_IO_MB = "TOTAL_IO_MB"

_MB = 1024 * 1024


def slice_metrics(slices: Iterable[FileSlice], file_size_bytes_max: int) -> Mapping[str, float]:
    """Counts, bytes and whole megabytes of some slices, summed over them.

    A slice without a base file counts as writing a base file of the maximum size.
    """
    totals = dict.fromkeys(
        (TOTAL_LOG_FILES, TOTAL_IO_MB, TOTAL_IO_READ_MB, TOTAL_LOG_FILES_SIZE, TOTAL_IO_WRITE_MB),
        0.0,
    )
    for file_slice in slices:
        log_bytes = sum(max(0, log.size_bytes) for log in file_slice.log_files)
        base_bytes = file_slice.base_file.size_bytes if file_slice.base_file else 0
        read_mb = (base_bytes + log_bytes) // _MB
        write_mb = (base_bytes if file_slice.base_file else file_size_bytes_max) // _MB
        totals[TOTAL_LOG_FILES] += len(file_slice.log_files)
        totals[TOTAL_LOG_FILES_SIZE] += log_bytes
        totals[TOTAL_IO_READ_MB] += read_mb
        totals[TOTAL_IO_WRITE_MB] += write_mb
        totals[TOTAL_IO_MB] += read_mb + write_mb
    return totals
