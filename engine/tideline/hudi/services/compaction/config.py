"""Compaction settings: when one is due, and what it picks, by Hudi's names and defaults."""

# ruff: noqa: RUF009 -- declared() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.errors import ConfigError
from tideline.hudi.table.settings import Settings, declared

_STRATEGY_PACKAGE = "org.apache.hudi.table.action.compact.strategy."


class CompactionTrigger(Enum):
    """What makes a compaction due (`hoodie.compact.inline.trigger.strategy`)."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class StrategyKind(Enum):
    """Which file groups a compaction takes; the value is Hudi's class without its package."""

    LOG_FILE_SIZE = "LogFileSizeBasedCompactionStrategy"
    LOG_FILE_COUNT = "LogFileNumBasedCompactionStrategy"
    BOUNDED_IO = "BoundedIOCompactionStrategy"
    UNBOUNDED = "UnBoundedCompactionStrategy"
    PARTITION_REGEX = "PartitionRegexBasedCompactionStrategy"
    DAY = "DayBasedCompactionStrategy"
    RECENT_DAYS = "BoundedPartitionAwareCompactionStrategy"
    OLDER_DAYS = "UnBoundedPartitionAwareCompactionStrategy"

    @classmethod
    def parse(cls, text: str) -> StrategyKind:
        """A strategy by class name, with or without package. Raises ConfigError."""
        try:
            return cls(text.strip().removeprefix(_STRATEGY_PACKAGE))
        except ValueError:
            known = ", ".join(kind.value for kind in cls)
            raise ConfigError(
                f"hoodie.compaction.strategy must be of {known}", value=text
            ) from None


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """When a compaction is due and what it takes.

    `strategies` are applied one after another. `partitions_max` bounds the strategies by day,
    `io_mb_max` those that bound what one compaction reads and writes. `is_incremental`: only
    partitions written to since the last compaction are looked at.
    """

    trigger: CompactionTrigger = declared(
        "hoodie.compact.inline.trigger.strategy", CompactionTrigger
    )
    delta_commits_max: int = declared("hoodie.compact.inline.max.delta.commits")
    delta_seconds_max: int = declared("hoodie.compact.inline.max.delta.seconds")
    strategies: tuple[StrategyKind, ...] = (StrategyKind.LOG_FILE_SIZE,)
    log_bytes_min: int = declared("hoodie.compaction.logfile.size.threshold")
    log_files_min: int = declared("hoodie.compaction.logfile.num.threshold")
    io_mb_max: int = declared("hoodie.compaction.target.io")
    partition_regex: str = declared("hoodie.compaction.partition.path.regex")
    partitions_max: int = declared("hoodie.compaction.daybased.target.partitions")
    is_incremental: bool = declared("hoodie.table.services.incremental.enabled")
    file_size_bytes_max: int = declared("hoodie.parquet.max.file.size")

    @classmethod
    def from_settings(cls, read: Settings) -> CompactionConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        names = read.text("hoodie.compaction.strategy").split(",")
        strategies = tuple(StrategyKind.parse(name) for name in names)
        return cls(**read.declared(cls), strategies=strategies)
