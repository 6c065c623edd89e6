"""An Iceberg table as parts of a LakeTable's status. Pure."""

from __future__ import annotations

from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.resources.status import TableStatus, TimelineStatus


def iceberg_timeline(table: ObservedIceberg) -> TimelineStatus:
    """The newest snapshot, and how many there are."""
    newest = table.metadata.ref_snapshot()
    return TimelineStatus(
        latest=None if newest is None else str(newest.snapshot_id),
        latest_action=None if newest is None else newest.operation,
        completed=len(table.metadata.snapshots),
    )


def iceberg_table_status(before: TableStatus | None, table: ObservedIceberg) -> TableStatus | None:
    """The files of the newest snapshot; as they were `before` while they are not counted."""
    files = table.files
    if files is None:
        return before
    newest = table.metadata.ref_snapshot()
    # What a filter left out of the count is in the snapshot's summary, where writers keep one.
    summary = newest.summary if newest is not None and files.is_filtered else {}
    return TableStatus(
        files=_number(summary.get("total-data-files"), files.files),
        bytes=_number(summary.get("total-files-size"), files.size_bytes),
        small_file_percent=round(100 * files.small_files / files.files) if files.files else 0,
        delete_files=files.delete_files,
        manifests=files.manifests,
    )


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdecimal() else otherwise
