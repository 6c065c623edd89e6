"""Did a write change a file group while it was being clustered? Pure.

A file of a completed write that belongs to a planned file group, that the plan does not name and
that is not older than what it names, holds rows that the clustering has not read: committing it
would lose them. Which writes are let through is the writers' policy
(`hoodie.clustering.updates.strategy`); this is what keeps the table right under any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile, split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.timeline.instant_time import InstantTime


def find_update(
    slices: Iterable[FileSlice],
    writes: Iterable[tuple[Instant, CommitMetadata]],
    planned_at: InstantTime,
) -> tuple[Instant, FileGroupId] | None:
    """The first completed write that changed or replaced a planned file group, and which one.

    `planned_at` is the clustering's instant: where writes say when they completed, one that did so
    later is news.
    """
    planned = {file_slice.group: file_slice for file_slice in slices}
    for instant, metadata in writes:
        for group in _changed(planned, instant, metadata, planned_at):
            return instant, group
    return None


def _changed(
    planned: Mapping[FileGroupId, FileSlice],
    write: Instant,
    metadata: CommitMetadata,
    planned_at: InstantTime,
) -> Iterable[FileGroupId]:
    for partition, file_ids in (metadata.partition_to_replace_file_ids or {}).items():
        for file_id in file_ids:
            if (group := FileGroupId(partition, file_id)) in planned:
                yield group
    for stat in metadata.write_stats:
        file = parse_data_file(*split_path(stat.path), 0) if stat.path else None
        if file is None or file.group not in planned:
            continue
        if write.completion_time is not None:
            is_news = write.completion_time > planned_at
        else:
            is_news = _is_news(planned[file.group], file)
        if is_news:
            yield file.group


def _is_news(file_slice: FileSlice, file: BaseFile | LogFile) -> bool:
    if isinstance(file, BaseFile):
        return file.instant > file_slice.base_instant
    names = {log.name for log in file_slice.log_files}
    oldest = min((log.instant for log in file_slice.log_files), default=file_slice.base_instant)
    return file.instant >= min(oldest, file_slice.base_instant) and file.name not in names
