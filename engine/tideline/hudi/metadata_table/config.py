"""Settings of the metadata table, with Hudi's names and defaults (HoodieMetadataConfig)."""

# ruff: noqa: RUF009 -- declared() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tideline.hudi.table.settings import Settings, declared

COMMITS_PER_COMPACTION = 10
COLUMN_LIST = "hoodie.metadata.index.column.stats.column.list"
COLUMNS_MAX = "hoodie.metadata.index.column.stats.max.columns.to.index"


class MetadataTableMode(Enum):
    """What a writer wants of the metadata table; the value is what hoodie.metadata.enable says.

    AS_IT_IS keeps it where there is one. ON makes one where there is none. OFF switches it off.
    """

    AS_IT_IS = ""
    ON = "true"
    OFF = "false"


@dataclass(frozen=True, slots=True)
class StatisticsConfig:
    """The columns that statistics are made of: those that are named, or the first so many."""

    columns: tuple[str, ...] = declared(COLUMN_LIST)
    columns_max: int = declared(COLUMNS_MAX)

    @classmethod
    def from_settings(cls, read: Settings) -> StatisticsConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        return cls(**read.declared(cls))


@dataclass(frozen=True, slots=True)
class MetadataTableConfig:
    """What becomes of a metadata table at a commit; it is compacted every `commits_per_compaction`
    commits. `begins_statistics`: one that is made by the first commit of a table has statistics."""

    mode: MetadataTableMode = declared("hoodie.metadata.enable", MetadataTableMode)
    commits_per_compaction: int = declared("hoodie.metadata.compact.max.delta.commits")
    begins_statistics: bool = declared("hoodie.metadata.index.column.stats.enable")
    statistics: StatisticsConfig = field(default_factory=StatisticsConfig)

    @classmethod
    def from_settings(cls, read: Settings) -> MetadataTableConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        return cls(**read.declared(cls), statistics=StatisticsConfig.from_settings(read))


KEEP_AS_IT_IS = MetadataTableConfig()
