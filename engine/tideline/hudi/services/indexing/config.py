"""The setting of indexing, which Hudi has none of."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.hudi.table.settings import Settings

INDEXES = "tideline.indexes"


@dataclass(frozen=True, slots=True)
class IndexingConfig:
    """The partitions of the metadata table that a table is to have, by name."""

    names: tuple[str, ...] = ()

    @classmethod
    def from_settings(cls, read: Settings) -> IndexingConfig:
        """Typed settings. Raises ConfigError naming the setting that cannot be read."""
        return cls(read.names(INDEXES))
