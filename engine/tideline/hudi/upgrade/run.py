"""A change of version from beginning to end: what has to go before it, then the change.

1. Tables of versions that are only read are brought to version 6 first.
2. What stands in the way and goes by no service is refused, before anything is done. Dead writes
   are rolled back, and what services have planned is run to its end.
3. Where logs would not be understood any more, everything is compacted; before they would be
   misunderstood in older slices, these are cleaned.
4. The version changes, under the lock (`change_version`).

Each step leaves a table that is whole: died in between, the same call continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.registry import all_services
from tideline.hudi.services.runs import TableServices
from tideline.hudi.services.service import TableService
from tideline.hudi.table.layout.version_6 import OLDEST_WRITTEN
from tideline.hudi.upgrade.execute import (
    VersionChanged,
    change_version,
    first_log,
    require_possible,
)
from tideline.hudi.upgrade.plan import plan_version_change

_EVERYTHING = {
    "hoodie.compaction.strategy": (
        "org.apache.hudi.table.action.compact.strategy.UnBoundedCompactionStrategy"
    )
}
_NEWEST_ALONE = {
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "1",
    "hoodie.clean.incremental.enabled": "false",
}


def preview_version_change(services: TableServices, version: int) -> VersionChanged:
    """What `run_version_change` would do; changes nothing. Raises as that does."""
    plan = plan_version_change(services.table.properties.reload(), version)
    if plan is not None:
        require_possible(services.table, services.table.timeline(), plan)
    return VersionChanged(plan, version, is_done=plan is None)


def run_version_change(services: TableServices, version: int) -> VersionChanged:
    """Bring the table to another version.

    Raises ConflictError where others are at work on the table, ConfigError and
    UnsupportedTableError where it cannot be of that version, CorruptTableError.
    """
    table, timing = services.table, services.context.config.lock_timing
    plan = plan_version_change(table.properties.reload(), version)
    if plan is None:
        return change_version(table, version, timing)
    if not plan.before.is_written:
        done = change_version(table, OLDEST_WRITTEN, timing)
        services.context.writer.recover(())
        return done if version == OLDEST_WRITTEN else run_version_change(services, version)
    require_possible(table, table.timeline(), plan)
    services.context.writer.recover(())
    _finish_pending(services)
    compactions = 0
    if plan.compacts and first_log(table, table.timeline(), plan):
        compactions = len(_run(services, COMPACTION, _EVERYTHING))
    if plan.forgets:
        _run(services, CLEANING, _NEWEST_ALONE)
    return replace(change_version(table, version, timing), compactions=compactions)


def _finish_pending(services: TableServices) -> None:
    timeline = services.table.timeline()
    for service in all_services():
        if services.pending(service, timeline):
            run = services.run_pending if service.moves_rows else services.run
            run(service)


def _run(
    services: TableServices, service: TableService, settings: Mapping[str, str]
) -> tuple[object, ...]:
    """Run a service for everything there is."""
    context = services.context
    given = {**context.given, **service.whenever_asked, **settings}
    return TableServices(context.writer, given, context.engine).run(service).done
