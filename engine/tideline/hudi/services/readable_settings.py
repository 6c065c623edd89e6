"""Whether all that reads a table's settings can: asked before a table is created with them."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.registry import all_services
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
    for service in all_services():
        service.settings(read)
