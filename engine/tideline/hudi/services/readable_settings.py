"""Whether all that reads a table's settings can: asked before a table is created with them."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.cleaning.config import CleaningConfig
from tideline.hudi.services.clustering.config import ClusteringConfig
from tideline.hudi.services.compaction.config import CompactionConfig
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.partition_ttl.config import PartitionTtlConfig
from tideline.hudi.services.scheduler import SchedulerConfig
from tideline.hudi.table.kept_settings import own_names
from tideline.hudi.table.settings import Settings
from tideline.hudi.write.config import WriteConfig


def check_readable(properties: Mapping[str, str]) -> None:
    """Raise ConfigError for a setting that would stop a writer or a service of the table."""
    properties = own_names(properties)
    read = Settings(properties)
    WriteConfig.from_properties(properties)
    SchedulerConfig.from_settings(read)
    ServiceConfig.from_settings(read)
    CleaningConfig.from_settings(read)
    ArchivalConfig.from_settings(read)
    CompactionConfig.from_settings(read)
    ClusteringConfig.from_settings(read)
    PartitionTtlConfig.from_settings(read)
