"""The maintenance of an Iceberg table, by the names people and operations use."""

from __future__ import annotations

from enum import Enum


class IcebergService(Enum):
    """One piece of maintenance; the value is its name in operations and settings.

    Declared in the order in which they run when several are due: what rewrites leave behind
    is removed by those that follow.
    """

    REWRITE_DATA_FILES = "rewrite"
    REWRITE_POSITION_DELETES = "rewrite-deletes"
    REWRITE_MANIFESTS = "rewrite-manifests"
    EXPIRE_SNAPSHOTS = "expire"
    REMOVE_ORPHAN_FILES = "orphans"

    @property
    def moves_rows(self) -> bool:
        """Whether it needs an engine that reads and writes rows in many tasks."""
        return self is IcebergService.REWRITE_DATA_FILES

    def __str__(self) -> str:
        return self.value
