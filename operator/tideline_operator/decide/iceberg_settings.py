"""The service part of an Iceberg table's LakeTable as arguments of Iceberg's procedures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tideline.iceberg.service import IcebergService
from tideline.iceberg.services import arguments as names
from tideline.iceberg.services.rewrite_data_files.options import QUIET_FOR
from tideline_operator.decide.engine_setting import engine_setting
from tideline_operator.resources.iceberg import (
    ExpireSnapshots,
    OrphanMode,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeletes,
    RewriteStrategy,
)
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.quantity import memory_bytes
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.services import ServiceMode, Services

ICEBERG_SPEC_NAMES: Mapping[IcebergService, str] = {
    IcebergService.REWRITE_DATA_FILES: "rewriteDataFiles",
    IcebergService.REWRITE_POSITION_DELETES: "rewritePositionDeletes",
    IcebergService.REWRITE_MANIFESTS: "rewriteManifests",
    IcebergService.EXPIRE_SNAPSHOTS: "expireSnapshots",
    IcebergService.REMOVE_ORPHAN_FILES: "removeOrphanFiles",
}
"""What the resource calls the services, in the order in which they run when several are due."""

_RERUN_OPTIONS: Mapping[IcebergService, Mapping[str, str]] = {
    IcebergService.REWRITE_DATA_FILES: {"min-input-files": "2"},
    IcebergService.REWRITE_POSITION_DELETES: {"min-input-files": "2"},
}
"""Options that override all others in a run that a user asked for."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How one service runs: the arguments and options of its procedure."""

    arguments: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    is_dry: bool = False


def wanted_iceberg_services(spec: LakeTableSpec) -> tuple[IcebergService, ...]:
    """The services that the operator runs, in the order in which they run."""
    services = spec.services
    if services.mode is ServiceMode.OFF:
        return ()
    enabled = {
        IcebergService.REWRITE_DATA_FILES: data_file_settings(services).enabled,
        IcebergService.REWRITE_POSITION_DELETES: delete_settings(services).enabled,
        IcebergService.REWRITE_MANIFESTS: manifest_settings(services).enabled,
        IcebergService.EXPIRE_SNAPSHOTS: snapshot_settings(services).enabled,
        IcebergService.REMOVE_ORPHAN_FILES: orphan_settings(services).enabled,
    }
    return tuple(service for service in ICEBERG_SPEC_NAMES if enabled[service])


def iceberg_settings(
    spec: LakeTableSpec, service: IcebergService, *, is_rerun: bool = False
) -> ServiceSettings:
    """How `service` runs on a table."""
    services = spec.services
    forced = _RERUN_OPTIONS.get(service, {}) if is_rerun else {}
    match service:
        case IcebergService.REWRITE_DATA_FILES:
            given = {**engine_setting(spec), **_quiet(services)}
            return _rewrite(data_file_settings(services), given, forced)
        case IcebergService.REWRITE_POSITION_DELETES:
            options = delete_settings(services).options
            return ServiceSettings(options={**_quiet(services), **options, **forced})
        case IcebergService.REWRITE_MANIFESTS:
            return ServiceSettings()
        case IcebergService.EXPIRE_SNAPSHOTS:
            return ServiceSettings(_expiry(snapshot_settings(services), services.quiet_for))
        case IcebergService.REMOVE_ORPHAN_FILES:
            orphans = orphan_settings(services)
            dropped = ",".join(orphans.dropped_tables)
            return ServiceSettings(
                {
                    names.OLDER_THAN_AGE_MS: str(orphans.older_than.ms),
                    **({names.DROPPED_TABLES: dropped} if dropped else {}),
                },
                is_dry=orphans.mode is OrphanMode.ADVISE,
            )


def data_file_settings(services: Services) -> RewriteDataFiles:
    """The part about data files, with the defaults where there is none."""
    return services.rewrite_data_files or RewriteDataFiles()


def delete_settings(services: Services) -> RewritePositionDeletes:
    """The part about position deletes."""
    return services.rewrite_position_deletes or RewritePositionDeletes()


def manifest_settings(services: Services) -> RewriteManifests:
    """The part about manifests."""
    return services.rewrite_manifests or RewriteManifests()


def snapshot_settings(services: Services) -> ExpireSnapshots:
    """The part about snapshots."""
    return services.expire_snapshots or ExpireSnapshots()


def orphan_settings(services: Services) -> RemoveOrphanFiles:
    """The part about orphan files."""
    return services.remove_orphan_files or RemoveOrphanFiles()


def _rewrite(
    rewrite: RewriteDataFiles, given: Mapping[str, str], forced: Mapping[str, str]
) -> ServiceSettings:
    arguments = {names.STRATEGY: rewrite.strategy.value.lower()}
    if rewrite.sort_by:
        columns = ", ".join(rewrite.sort_by)
        is_zorder = rewrite.strategy is RewriteStrategy.ZORDER
        arguments[names.SORT_ORDER] = f"zorder({columns})" if is_zorder else columns
    if rewrite.filter is not None:
        arguments[names.WHERE] = rewrite.filter
    options = {**given, "min-input-files": str(rewrite.min_input_files)}
    if rewrite.target_file_size is not None:
        options["target-file-size-bytes"] = str(memory_bytes(rewrite.target_file_size))
    if rewrite.partial_progress.enabled:
        options["partial-progress.enabled"] = "true"
        options["partial-progress.max-commits"] = str(rewrite.partial_progress.max_commits)
    return ServiceSettings(arguments, {**options, **rewrite.options, **forced})


def _quiet(services: Services) -> dict[str, str]:
    return {} if services.quiet_for is None else {QUIET_FOR: str(services.quiet_for.ms)}


def _expiry(expiry: ExpireSnapshots, quiet_for: Duration | None) -> dict[str, str]:
    arguments = {}
    if quiet_for is not None:
        arguments[names.QUIET_FOR_MS] = str(quiet_for.ms)
    if expiry.older_than is not None:
        arguments[names.OLDER_THAN_AGE_MS] = str(expiry.older_than.ms)
    if expiry.retain_last is not None:
        arguments[names.RETAIN_LAST] = str(expiry.retain_last)
    return arguments
