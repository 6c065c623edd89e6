"""Clustering settings: when it is due, what it takes and how it lays rows out, by Hudi's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.errors import ConfigError
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.table.row_layout import RowLayout
from tideline.hudi.table.settings import Settings, declared
from tideline.hudi.table.table_config import INDEX_TYPE

PLAN_CLASS_KEY = "hoodie.clustering.plan.strategy.class"
PARTITION_REGEX = "hoodie.clustering.plan.strategy.partition.regex.pattern"
SORT_COLUMNS_KEY = "hoodie.clustering.plan.strategy.sort.columns"
TARGET_BYTES_KEY = "hoodie.clustering.plan.strategy.target.file.max.bytes"
LAYOUT_KEY = "hoodie.layout.optimize.strategy"
_MODE_OF_CLASS = {
    "SparkRecentDaysClusteringPlanStrategy": "RECENT_DAYS",
    "SparkSelectedPartitionsClusteringPlanStrategy": "SELECTED_PARTITIONS",
}
_SIZE_BASED = "SparkSizeBasedClusteringPlanStrategy"


class PartitionFilter(Enum):
    """Which partitions are clustered (`hoodie.clustering.plan.partition.filter.mode`)."""

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


@dataclass(frozen=True, slots=True)
class ClusteringConfig:
    """When clustering is due, which file groups it takes and how their rows are laid out.

    Without `sort_columns` rows keep the order they are read in.
    """

    inline_commits_max: int = declared("hoodie.clustering.inline.max.commits")
    async_commits_max: int = declared("hoodie.clustering.async.max.commits")
    selected_partitions: tuple[str, ...] = declared(
        "hoodie.clustering.plan.strategy.partition.selected"
    )
    partition_regex: str = declared(PARTITION_REGEX)
    partition_filter: PartitionFilter = PartitionFilter.NONE
    skip_latest_partitions: int = declared(
        "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions"
    )
    lookback_partitions: int = declared(
        "hoodie.clustering.plan.strategy.daybased.lookback.partitions"
    )
    begin_partition: str = declared("hoodie.clustering.plan.strategy.cluster.begin.partition")
    end_partition: str = declared("hoodie.clustering.plan.strategy.cluster.end.partition")
    small_file_bytes: int = declared("hoodie.clustering.plan.strategy.small.file.limit")
    group_bytes_max: int = declared("hoodie.clustering.plan.strategy.max.bytes.per.group")
    groups_max: int = declared("hoodie.clustering.plan.strategy.max.num.groups")
    target_file_bytes: int = declared(TARGET_BYTES_KEY)
    sort_columns: tuple[str, ...] = declared(SORT_COLUMNS_KEY)
    layout: RowLayout = RowLayout.LINEAR
    single_groups: bool = declared(
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled"
    )
    is_incremental: bool = declared("hoodie.table.services.incremental.enabled")
    base_file_bytes_max: int = declared("hoodie.parquet.max.file.size")
    has_bucket_index: bool = False

    @classmethod
    def from_settings(cls, read: Settings) -> ClusteringConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        return cls(
            **read.declared(cls),
            partition_filter=_partition_filter(read),
            layout=_layout(read),
            has_bucket_index=_index(read).places_by_hash,
        )


def _partition_filter(read: Settings) -> PartitionFilter:
    name = "hoodie.clustering.plan.partition.filter.mode"
    kind = read.text(PLAN_CLASS_KEY).rpartition(".")[2]
    if kind in _MODE_OF_CLASS:
        return PartitionFilter(_MODE_OF_CLASS[kind])
    if kind != _SIZE_BASED:
        raise ConfigError(
            f"{PLAN_CLASS_KEY} must be {_SIZE_BASED} or one of {', '.join(_MODE_OF_CLASS)}",
            value=kind,
        )
    return read.member(name, PartitionFilter)


def _index(read: Settings) -> IndexType:
    """The index the table was created with, else the one that settings name."""
    named = read.text("hoodie.index.type")
    return IndexType.parse(read.text(INDEX_TYPE, named))


def _layout(read: Settings) -> RowLayout:
    text = read.text(LAYOUT_KEY)
    return RowLayout.ZORDER if text.lower() == "z-order" else read.member(LAYOUT_KEY, RowLayout)
