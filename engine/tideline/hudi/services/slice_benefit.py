"""What readers save when file slices are rewritten. Pure.

A read of a slice opens its base file and its log files and merges these; logs of changes (CDC) are
no part of it. The old files stay in the store until they are cleaned, which then counts them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.services.benefit import Benefit


def benefit_of_rewrite(
    slices: Iterable[FileSlice], *, files_after: int, bytes_after: int
) -> Benefit:
    """Slices that became base files alone, so many of so many bytes."""
    files = size_bytes = logs = log_bytes = 0
    for file_slice in slices:
        files += len(file_slice.log_files) + (file_slice.base_file is not None)
        size_bytes += file_slice.size_bytes
        logs += len(file_slice.log_files)
        log_bytes += sum(log.size_bytes for log in file_slice.log_files)
    return Benefit(
        files_opened=files - files_after,
        bytes_scanned=size_bytes - bytes_after,
        delta_files=logs,
        delta_bytes=log_bytes,
    )


def saved_by_rewrite(slices: Iterable[FileSlice], stats: Sequence[WriteStat]) -> Benefit:
    """The same, by the files that were written."""
    size_bytes = sum(stat.file_size_in_bytes for stat in stats)
    return benefit_of_rewrite(slices, files_after=len(stats), bytes_after=size_bytes)


def benefit_of_merged_logs(
    slices: Iterable[FileSlice], *, files_after: int, bytes_after: int
) -> Benefit:
    """Slices whose log blocks became those of so many more log files, of so many bytes.

    The old log files stay in their slices: a read opens them, and then merges the new ones alone.
    """
    logs = [log for file_slice in slices for log in file_slice.log_files]
    return Benefit(
        files_opened=-files_after,
        delta_files=len(logs) - files_after,
        delta_bytes=sum(log.size_bytes for log in logs) - bytes_after,
    )


def benefit_of_dropped(files: Iterable[BaseFile | LogFile]) -> Benefit:
    """File groups that are gone, given all files that are left of them: readers opened the newest
    base file of each and the logs from then on."""
    groups: dict[FileGroupId, list[BaseFile | LogFile]] = defaultdict(list)
    for file in files:
        groups[file.group].append(file)
    slices = []
    for group, found in groups.items():
        bases = [base_file for base_file in found if isinstance(base_file, BaseFile)]
        base = max(bases, key=lambda base_file: base_file.instant, default=None)
        logs = [
            log_file for log_file in found if isinstance(log_file, LogFile) and not log_file.is_cdc
        ]
        kept = tuple(
            log_file for log_file in logs if base is None or log_file.instant >= base.instant
        )
        slices.append(FileSlice(group, found[0].instant, base, kept))
    return benefit_of_rewrite(slices, files_after=0, bytes_after=0)
