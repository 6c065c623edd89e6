"""Settings of partition TTL, with Hudi's names and defaults."""

# ruff: noqa: RUF009 -- declared() makes a dataclass field
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.hudi.table.settings import Settings, declared


class TtlStrategy(Enum):
    """From when on a partition's days count: the last write to it, or its creation."""

    KEEP_BY_TIME = "KEEP_BY_TIME"
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class PartitionTtlConfig:
    """How long partitions are kept. `days_retained` None keeps them forever.

    `selected` restricts it to some partitions (empty: all); `partitions_max` bounds one run.
    """

    strategy: TtlStrategy = declared("hoodie.partition.ttl.strategy.type", TtlStrategy)
    days_retained: int | None = None
    selected: tuple[str, ...] = declared("hoodie.partition.ttl.strategy.partition.selected")
    partitions_max: int = declared("hoodie.partition.ttl.strategy.max.delete.partitions")

    @classmethod
    def from_settings(cls, read: Settings) -> PartitionTtlConfig:
        """Typed settings. Raises ConfigError naming the setting that cannot be read."""
        days = read.integer("hoodie.partition.ttl.strategy.days.retain")
        return cls(**read.declared(cls), days_retained=days if days > 0 else None)
