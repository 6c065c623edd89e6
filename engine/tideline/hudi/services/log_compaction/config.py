"""Settings of log compaction, with Hudi's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.table.settings import Settings


@dataclass(frozen=True, slots=True)
class LogCompactionConfig:
    """When it is due: log files or blocks of a slice, and delta commits since the last one."""

    blocks_min: int = 5
    file_size_bytes_max: int = 125_829_120

    @classmethod
    def from_settings(cls, read: Settings) -> LogCompactionConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        return cls(
            read.integer("hoodie.log.compaction.blocks.threshold"),
            read.integer("hoodie.parquet.max.file.size"),
        )
