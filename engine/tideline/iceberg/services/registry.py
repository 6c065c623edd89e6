"""The services of Iceberg tables, a line each, in the order in which they run when several are due
and save equally much: what rewrites leave behind is removed by those that follow."""

from __future__ import annotations

from tideline.iceberg.services.expire_snapshots.service import EXPIRE_SNAPSHOTS
from tideline.iceberg.services.remove_orphan_files.service import REMOVE_ORPHAN_FILES
from tideline.iceberg.services.rewrite_data_files.service import REWRITE_DATA_FILES
from tideline.iceberg.services.rewrite_manifests.service import REWRITE_MANIFESTS
from tideline.iceberg.services.rewrite_position_deletes.service import REWRITE_POSITION_DELETES
from tideline.iceberg.services.service import DRY_RUN, IcebergService

__all__ = [
    "DRY_RUN",
    "REWRITE_DATA_FILES",
    "REWRITE_POSITION_DELETES",
    "IcebergService",
    "all_services",
]

SERVICES: tuple[IcebergService, ...] = (
    REWRITE_DATA_FILES,
    REWRITE_POSITION_DELETES,
    REWRITE_MANIFESTS,
    EXPIRE_SNAPSHOTS,
    REMOVE_ORPHAN_FILES,
)


def all_services() -> tuple[IcebergService, ...]:
    """Every service, in the order in which they run."""
    return SERVICES
