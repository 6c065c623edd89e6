"""The kind of table a random history of services is about: its type and settings, from a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tideline.hudi.services.archival.config import ArchivalConfig, MergeConfig
from tideline.hudi.table.table_config import TableType

# Every service is due as early as its settings allow, and keeps as little as they allow.
_EAGER = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.async.max.commits": "1",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.clean.commits.retained": "2",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.clean.hours.retained": "3",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
_CHOICES = {
    "hoodie.index.type": ("SIMPLE", "GLOBAL_SIMPLE", "BUCKET"),
    "hoodie.parquet.small.file.limit": ("0", "1000000"),
    "hoodie.logfile.data.block.format": ("parquet", "avro"),
    "hoodie.clustering.plan.strategy.max.num.groups": ("1", "30"),
    "hoodie.clustering.updates.strategy": ("SparkRejectUpdateStrategy", "SparkAllowUpdateStrategy"),
    "hoodie.clean.policy": (
        "KEEP_LATEST_COMMITS",
        "KEEP_LATEST_FILE_VERSIONS",
        "KEEP_LATEST_BY_HOURS",
    ),
    "hoodie.archive.beyond.savepoint": ("false", "false", "false", "false", "true"),
}


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Table type and properties. `archival` archives in portions of two instants, or in one."""

    table_type: TableType
    properties: Mapping[str, str]
    archival: ArchivalConfig

    @classmethod
    def drawn(cls, random: Random) -> HistorySettings:
        """Most tables are merge-on-read: more can happen to them."""
        table_type = random.choice([TableType.COPY_ON_WRITE, *[TableType.MERGE_ON_READ] * 4])
        chosen = {name: random.choice(values) for name, values in _CHOICES.items()}
        archival = ArchivalConfig(
            commits_min=3,
            commits_max=4,
            merge=MergeConfig(True, 3),
            instants_per_portion=random.choice([2, 500]),
        )
        return cls(table_type, {**_EAGER, **chosen}, archival)

    @property
    def is_archived_beyond_savepoints(self) -> bool:
        """Restores are refused then: what came after a savepoint may be in the archive."""
        return self.properties["hoodie.archive.beyond.savepoint"] == "true"

    def __str__(self) -> str:
        chosen = (f"{name}={self.properties[name]}" for name in _CHOICES)
        portion = f"{self.archival.instants_per_portion} instants archived at once"
        return "\n".join([str(self.table_type), *chosen, portion])
