"""What readers save when data files are rewritten. Pure.

A scan opens the data files, and with each the delete files about it. Those that are about rewritten
files alone are not read any more; others may apply to files that stay, and are left out. The old
files stay in the store until their snapshots expire, which then counts them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tideline.iceberg.scan.delete_index import referenced_data_file
from tideline.iceberg.scan.task import FileScanTask
from tideline.services.benefit import Benefit


def benefit_of_rewrite(
    tasks: Sequence[FileScanTask], *, files_after: int, bytes_after: int
) -> Benefit:
    """Data files that became so many of so many bytes."""
    paths = {task.data_file.file_path for task in tasks}
    deletes = {
        # Deletion vectors of several data files may share a file.
        (delete.file_path, delete.content_offset): delete.content_size_bytes
        or delete.file_size_bytes
        for task in tasks
        for delete in task.deletes
        if referenced_data_file(delete) in paths
    }
    delta_bytes = sum(deletes.values())
    data_bytes = sum(task.data_file.file_size_bytes for task in tasks)
    return Benefit(
        files_opened=len(tasks) + len(deletes) - files_after,
        bytes_scanned=data_bytes + delta_bytes - bytes_after,
        delta_files=len(deletes),
        delta_bytes=delta_bytes,
    )
