"""Planning a rewrite of a table: its branch's files scanned, grouped, and reported as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideline.clock import SystemClock
from tideline.errors import ConfigError
from tideline.formats.filter import ALL_ROWS, Filter
from tideline.iceberg.commit.changed_partitions import changed_lately
from tideline.iceberg.metadata.field_type import walk_leaves
from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.metadata.snapshot import MAIN
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.plan import plan_files
from tideline.iceberg.services.rewrite_data_files.copy_survey import GroupSurvey
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.plan import FileGroup, RewritePlan, plan_rewrite
from tideline.iceberg.table.file_io import FileIO


def plan_table_rewrite(
    io: FileIO,
    metadata: TableMetadata,
    options: RewriteOptions,
    *,
    where: Filter = ALL_ROWS,
    branch: str = MAIN,
    now_ms: int | None = None,
) -> RewritePlan:
    """The plan for the newest snapshot of `branch`, of the files that may hold rows of `where`.

    Raises ConfigError when the filter, the branch or `output-spec-id` does not fit the table, and
    CorruptTableError.
    """
    ref = metadata.refs.get(branch)
    if ref is None and branch != MAIN:
        message = "the table has no such branch"
        raise ConfigError(message, table=metadata.location, value=branch)
    if ref is not None and ref.type != "branch":
        message = "a tag stays where it is: only a branch can be rewritten"
        raise ConfigError(message, table=metadata.location, value=branch)
    snapshot = metadata.ref_snapshot(branch)
    now_ms = SystemClock().now_ms() if now_ms is None else now_ms
    return plan_rewrite(
        plan_files(
            io, metadata, snapshot, where, with_nan_counts=_may_copy_floats(metadata, options)
        ),
        metadata,
        options,
        starting_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        changed=changed_lately(io, metadata, snapshot, options.quiet_for_ms, now_ms=now_ms),
    )


def plan_json(
    plan: RewritePlan, metadata: TableMetadata, surveys: Sequence[GroupSurvey] | None = None
) -> dict[str, Any]:
    """The plan for machines: files and bytes before and after, every group with its reason and,
    with `surveys` of them, what is copied, recompressed or re-encoded."""
    groups = [_group_json(group, metadata) for group in plan.groups]
    for group, survey in zip(groups, surveys or (), strict=surveys is not None):
        group |= survey.json()
    return {
        "snapshot": None if plan.starting_snapshot_id is None else str(plan.starting_snapshot_id),
        "files_before": plan.files_before,
        "files_after": plan.files_after,
        "bytes_before": plan.bytes_before,
        "bytes_after": plan.bytes_after,
        "saves": plan.benefit.to_json_object(),
        "core_seconds": plan.core_seconds,
        "benefit_per_core_second": round(plan.benefit_per_core_second),
        "groups": groups,
        "skipped": [
            {
                "reason": skipped.reason.value,
                "files": skipped.files,
                "bytes": skipped.size_bytes,
                "named": skipped.named,
            }
            for skipped in plan.skipped
        ],
    }


def _may_copy_floats(metadata: TableMetadata, options: RewriteOptions) -> bool:
    """Whether row groups may be copied whose footers lack the numbers of NaN."""
    kinds = (str(kind) for _, kind, _ in walk_leaves(metadata.schema().fields))
    return not options.strategy.shuffles and any(kind in ("float", "double") for kind in kinds)


def group_partition(group: FileGroup, metadata: TableMetadata) -> str:
    """The folder name of the group's partition, empty when it is of no single one."""
    if not group.partition:
        return ""
    spec = metadata.spec(group.spec_id)
    return partition_path(spec, group.partition, metadata.partition_schema(spec))


def _group_json(group: FileGroup, metadata: TableMetadata) -> dict[str, Any]:
    deletes = {delete.file_path for task in group.tasks for delete in task.deletes}
    return {
        "partition": group_partition(group, metadata),
        "spec_id": group.spec_id,
        "output_spec_id": group.output_spec_id,
        "reason": group.reason.value,
        "files_before": len(group.tasks),
        "files_after": group.outputs_expected,
        "bytes_before": group.input_bytes,
        "bytes_after": group.output_bytes_expected,
        "rows": group.rows,
        "rows_deleted": group.rows_deleted,
        "delete_files": len(deletes),
    }
