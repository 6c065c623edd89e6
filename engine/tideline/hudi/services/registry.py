"""The table services there are, a line each: what else runs, lists or plans services asks here.

In the order in which Hudi runs them after a commit: failed writes are rolled back before it, then
clean, archive, compact, compact logs, cluster, and partitions expire. Indexes are made last.
"""

from __future__ import annotations

from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.indexing.service import INDEXING
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.service import TableService
from tideline.services.service import named

__all__ = ["ROLLBACK", "SERVICES", "TableService", "all_services", "service_named"]

SERVICES: tuple[TableService, ...] = (
    ROLLBACK,
    CLEANING,
    ARCHIVAL,
    COMPACTION,
    LOG_COMPACTION,
    CLUSTERING,
    PARTITION_TTL,
    INDEXING,
)


def all_services() -> tuple[TableService, ...]:
    """Every service, in the order in which they run."""
    return SERVICES


def service_named(text: str | TableService) -> TableService:
    """The service of this name; itself for itself. Raises ConfigError naming the known ones."""
    return named(text, all_services())
