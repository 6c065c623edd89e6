"""The maintenance of an Iceberg table, by the names people and operations use."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class IcebergService(Enum):
    """One piece of maintenance; the value is its name in operations and settings.

    Declared in the order in which they run when several are due and save equally much: what
    rewrites leave behind is removed by those that follow.
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

    def goes_after(self, other: IcebergService) -> bool:
        """Whether it waits for another that is due as well, whatever each of them saves."""
        return other in _FOLLOWS.get(self, ())

    def __str__(self) -> str:
        return self.value


# Deletes of rewritten data files need no rewrite, both make manifests, and expired snapshots may
# leave files that are no longer known.
_FOLLOWS: Mapping[IcebergService, tuple[IcebergService, ...]] = {
    IcebergService.REWRITE_POSITION_DELETES: (IcebergService.REWRITE_DATA_FILES,),
    IcebergService.REWRITE_MANIFESTS: (
        IcebergService.REWRITE_DATA_FILES,
        IcebergService.REWRITE_POSITION_DELETES,
    ),
    IcebergService.REMOVE_ORPHAN_FILES: (IcebergService.EXPIRE_SNAPSHOTS,),
}
