"""Settings of log compaction, with Hudi's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.table.settings import Settings, declared


@dataclass(frozen=True, slots=True)
class LogCompactionConfig:
    """When it is due: log files or blocks of a slice, and delta commits since the last one."""

    blocks_min: int = declared("hoodie.log.compaction.blocks.threshold")
    file_size_bytes_max: int = declared("hoodie.parquet.max.file.size")

    @classmethod
    def from_settings(cls, read: Settings) -> LogCompactionConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        return cls(**read.declared(cls))
