"""The table-service part of a LakeTable."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from tideline.hudi.services.cleaning.config import CleaningPolicy
from tideline.hudi.services.compaction.config import CompactionTrigger
from tideline_operator.resources.field import CelRule, described
from tideline_operator.resources.iceberg import (
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeletes,
)
from tideline_operator.resources.ingest import COLUMN
from tideline_operator.resources.schedule import Cron, Duration


class ServiceMode(Enum):
    """Who runs table services."""

    AUTO = "Auto"
    ADVISE = "Advise"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionDue:
    """When a compaction is due."""

    strategy: CompactionTrigger = described(
        "Which of the limits count.",
        setting="hoodie.compact.inline.trigger.strategy",
        words=CompactionTrigger,
    )
    delta_commits: int = described(
        "Delta commits since the last compaction.",
        setting="hoodie.compact.inline.max.delta.commits",
        maximum=10_000,
    )
    elapsed: Duration = described(
        "Time since the last compaction.", default=Duration(3_600_000), length_max=16
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Merging of log files into base files."""

    enabled: bool = described("Whether compactions run.", default=True)
    trigger: CompactionDue = described("When one is due.", default_factory=CompactionDue)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction:
    """Merging of many small log blocks into one, between two compactions."""

    enabled: bool = described("Whether log compactions run.", default=False)
    blocks: int = described(
        "Log files or blocks of a file group that are worth merging.",
        setting="hoodie.log.compaction.blocks.threshold",
        minimum=2,
        maximum=10_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """Rewriting small files into large, sorted ones."""

    enabled: bool = described("Whether clustering runs.", default=False)
    sort_by: tuple[str, ...] = described(
        "Columns to sort by.",
        default=(),
        **COLUMN,
        items_max=20,
    )
    every_commits: int = described(
        "Commits between two runs.", setting="hoodie.clustering.inline.max.commits", maximum=10_000
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """Removal of file versions that no reader needs any more."""

    enabled: bool = described("Whether cleaning runs.", default=True)
    policy: CleaningPolicy = described("What is kept.", default=CleaningPolicy.KEEP_LATEST_COMMITS)
    retain: int = described(
        "How many commits, file versions or hours are kept.",
        setting="hoodie.clean.commits.retained",
        maximum=100_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Archiving:
    """Moving old instants out of the active timeline."""

    enabled: bool = described("Whether archiving runs.", default=True)
    min_commits: int = described(
        "Instants left after archiving.", setting="hoodie.keep.min.commits", maximum=100_000
    )
    max_commits: int = described(
        "Instants beyond which archiving is due.",
        setting="hoodie.keep.max.commits",
        minimum=2,
        maximum=100_000,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.minCommits < self.maxCommits", "must be less than maxCommits", field="minCommits"
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """minCommits < maxCommits."""
        if self.min_commits >= self.max_commits:
            yield "minCommits", f"must be less than maxCommits ({self.max_commits})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTtl:
    """Deletion of partitions that were not written to for long enough."""

    days: int | None = described(
        "Days after its last write that a partition is deleted; never otherwise.",
        default=None,
        minimum=1,
        maximum=100_000,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Table services and when they may run."""

    mode: ServiceMode = described(
        "Auto runs what is due, Advise only plans and reports, Off does neither.",
        default=ServiceMode.AUTO,
    )
    compaction: Compaction = described("Compaction.", default_factory=Compaction)
    log_compaction: LogCompaction = described("Log compaction.", default_factory=LogCompaction)
    clustering: Clustering = described("Clustering.", default_factory=Clustering)
    cleaning: Cleaning = described("Cleaning.", default_factory=Cleaning)
    archiving: Archiving = described("Archiving.", default_factory=Archiving)
    partition_ttl: PartitionTtl = described("Partition TTL.", default_factory=PartitionTtl)
    rewrite_data_files: RewriteDataFiles | None = described(
        "Rewriting of an Iceberg table's data files; without it the defaults of its fields.",
        default=None,
    )
    rewrite_position_deletes: RewritePositionDeletes | None = described(
        "Rewriting of an Iceberg table's position deletes; without it the defaults of its fields.",
        default=None,
    )
    rewrite_manifests: RewriteManifests | None = described(
        "Rewriting of an Iceberg table's manifests; without it the defaults of its fields.",
        default=None,
    )
    expire_snapshots: ExpireSnapshots | None = described(
        "Expiry of an Iceberg table's snapshots; without it the defaults of its fields.",
        default=None,
    )
    remove_orphan_files: RemoveOrphanFiles | None = described(
        "Orphan files of an Iceberg table; without it the defaults of its fields.", default=None
    )
    quiet_for: Duration | None = described(
        "How long other writers must have left a partition of an Iceberg table alone before its "
        "files are rewritten: changes of rows in place count, appends do not. Nor does a snapshot "
        "expire that was the newest within that time. Without it nothing is waited for; a "
        "LakeCatalog takes 10m.",
        default=None,
        length_max=16,
    )
    maintenance_window: Cron | None = described(
        "Minutes in which services may start, as a cron expression in UTC; always otherwise.",
        default=None,
        length_max=128,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.cleaning.policy != 'KEEP_LATEST_COMMITS' || !self.cleaning.enabled || "
            "!self.archiving.enabled || self.archiving.minCommits > self.cleaning.retain",
            "must be greater than cleaning.retain",
            field="archiving.minCommits",
        ),
        CelRule(
            "!self.clustering.enabled || !self.archiving.enabled || "
            "self.archiving.minCommits >= self.clustering.everyCommits",
            "must be at least clustering.everyCommits, which counts commits that are not archived",
            field="archiving.minCommits",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Archiving must leave the instants that cleaning needs and that clustering counts."""
        by_commits = self.cleaning.policy is CleaningPolicy.KEEP_LATEST_COMMITS
        both_run = self.cleaning.enabled and self.archiving.enabled
        if by_commits and both_run and self.archiving.min_commits <= self.cleaning.retain:
            yield (
                "archiving.minCommits",
                f"must be greater than cleaning.retain ({self.cleaning.retain})",
            )
        both_run = self.clustering.enabled and self.archiving.enabled
        if both_run and self.archiving.min_commits < self.clustering.every_commits:
            yield (
                "archiving.minCommits",
                f"must be at least clustering.everyCommits ({self.clustering.every_commits}), "
                "which counts commits that are not archived",
            )
