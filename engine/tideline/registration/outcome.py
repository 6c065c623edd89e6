"""What a sync did, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableSynced:
    """What changed in one table of a metastore; `name` is `database.name`."""

    name: str
    is_created: bool = False
    is_altered: bool = False
    partitions_added: int = 0
    partitions_moved: int = 0
    partitions_dropped: int = 0

    @property
    def is_changed(self) -> bool:
        """Whether there was anything to do, beside noting the commit."""
        partitions = self.partitions_added or self.partitions_moved or self.partitions_dropped
        return self.is_created or self.is_altered or bool(partitions)


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did. `instant` is the newest commit that is registered, None for a table without
    any; `metastore` names where."""

    metastore: str
    instant: str | None
    tables: tuple[TableSynced, ...] = ()

    @property
    def is_changed(self) -> bool:
        return any(table.is_changed for table in self.tables)
