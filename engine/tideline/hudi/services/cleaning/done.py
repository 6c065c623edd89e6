"""What a clean has done: file by file, and as the metadata of its instant.

Source: Hudi's HoodieCleanMetadata, CleanActionExecutor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tideline.hudi.services.cleaning.plan import PLAN_VERSION, CleaningPlan
from tideline.hudi.services.run_metrics import CLEAN_CORE_SECONDS
from tideline.hudi.table.file_group import split_path
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.resource_usage import NOTHING, ResourceUsage
from tideline.services.benefit import Benefit
from tideline.services.report import ServiceReport, left_undone
from tideline.wording import counted

BYTES_DELETED = "tideline.clean.bytes.deleted"
ELAPSED_MS = "tideline.clean.elapsed.ms"


@dataclass(frozen=True, slots=True)
class CleanedFile:
    """A file that is gone. `size_bytes` is None when it had been gone before this run."""

    path: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class CleaningDone:
    """One executed clean, and what it took up to its completion. `kept` are files that the store
    does not delete."""

    instant: InstantTime
    policy: str
    earliest_retained: InstantTime | None
    files: tuple[CleanedFile, ...]
    partitions_deleted: tuple[str, ...]
    elapsed_ms: int
    spent: ResourceUsage = NOTHING
    kept: tuple[str, ...] = ()

    @property
    def bytes_deleted(self) -> int:
        return sum(file.size_bytes or 0 for file in self.files)

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        return ServiceReport(
            f"deleted {counted(len(self.files), 'file')} that no reader needs any more",
            self.instant,
            files_deleted=len(self.files),
            bytes_deleted=self.bytes_deleted,
            benefit=self.benefit,
            notes=left_undone([f"the store keeps {path}" for path in self.kept]),
        )

    @property
    def benefit(self) -> Benefit:
        """Files that had been gone before saved nothing now."""
        found = sum(file.size_bytes is not None for file in self.files)
        return Benefit(objects_listed=found, bytes_stored=self.bytes_deleted)

    def to_json_object(self) -> dict[str, Any]:
        """The audit: every file with its bytes."""
        return {
            "service": "cleaning",
            "instant": str(self.instant),
            "policy": self.policy,
            "earliest_retained": str(self.earliest_retained) if self.earliest_retained else None,
            "deleted": [
                {
                    "path": file.path,
                    "bytes": file.size_bytes or 0,
                    "done": "deleted" if file.size_bytes is not None else "was gone already",
                }
                for file in self.files
            ],
            "kept": list(self.kept),
            "partitions_deleted": list(self.partitions_deleted),
            "bytes_deleted": self.bytes_deleted,
            "elapsed_ms": self.elapsed_ms,
            **self.spent.to_json_object(),
            "saved": self.benefit.to_json_object(),
        }


def clean_metadata(plan: CleaningPlan, done: CleaningDone) -> dict[str, Any]:
    """The metadata of the completed instant."""
    by_partition = dict(plan.files)
    for partition in done.partitions_deleted:
        by_partition.setdefault(partition, ())
    names = {
        partition: [split_path(file.path)[1] for file in files]
        for partition, files in by_partition.items()
    }
    kept: dict[str, list[str]] = {}
    for path in done.kept:
        partition, name = split_path(path)
        kept.setdefault(partition, []).append(name)
    return {
        "startCleanTime": str(done.instant),
        "timeTakenInMillis": done.elapsed_ms,
        "totalFilesDeleted": len(done.files),
        "earliestCommitToRetain": str(done.earliest_retained or ""),
        "lastCompletedCommitTimestamp": str(plan.last_completed or ""),
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "policy": plan.policy,
                "deletePathPatterns": names[partition],
                "successDeleteFiles": [
                    name for name in names[partition] if name not in kept.get(partition, ())
                ],
                "failedDeleteFiles": kept.get(partition, []),
                "isPartitionDeleted": partition in done.partitions_deleted,
            }
            for partition in sorted(names)
        },
        "version": PLAN_VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": {
            **plan.extra_metadata,
            BYTES_DELETED: str(done.bytes_deleted),
            ELAPSED_MS: str(done.elapsed_ms),
            CLEAN_CORE_SECONDS: f"{done.spent.core_seconds:.3f}",
        },
    }
