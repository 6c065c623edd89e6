"""The files of a Hudi table, counted."""

from __future__ import annotations

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline_operator.decide.observed import FileCounts

# The engine's default, for a table whose properties do not set it.
_SMALL_FILE_LIMIT = ("hoodie.parquet.small.file.limit", 104_857_600)


def count_files(hoodie: HoodieTable, timeline: ActiveTimeline) -> FileCounts:
    """Count the table's current files. Lists all of them."""
    view = hoodie.files.read_view(timeline)
    limit = _number(hoodie, _SMALL_FILE_LIMIT)
    files = size_bytes = small_files = log_files = 0
    for partition in view.partitions:
        for file_slice in view.latest_slices(partition):
            size_bytes += file_slice.size_bytes
            log_files += len(file_slice.log_files)
            if file_slice.base_file is not None:
                files += 1
                small_files += file_slice.base_file.size_bytes < limit
    return FileCounts(files, size_bytes, small_files, log_files)


def _number(hoodie: HoodieTable, setting: tuple[str, int]) -> int:
    text = hoodie.config.properties.get(setting[0], "")
    return int(text) if text.isdecimal() else setting[1]
