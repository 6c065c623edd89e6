"""The service part of an Iceberg table's LakeTable as settings of its services.

The field of a service is called as the service is. One that the resource has no field for runs, as
those do whose field is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tideline.iceberg.services.registry import DRY_RUN, IcebergService, all_services
from tideline.iceberg.services.remove_orphan_files.plan import DROPPED_TABLES
from tideline.iceberg.services.rewrite_data_files.arguments import SORT_ORDER, STRATEGY, WHERE
from tideline.iceberg.services.rewrite_data_files.options import QUIET_FOR
from tideline.iceberg.services.rewrite_manifests.plan import MIN_MANIFESTS
from tideline.iceberg.services.table_setting import OLDER_THAN_AGE_MS, QUIET_FOR_MS, RETAIN_LAST
from tideline.services.service import Service
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
from tideline_operator.resources.services import ServiceMode


def wanted_iceberg_services(spec: LakeTableSpec) -> tuple[IcebergService, ...]:
    """The services that the operator runs, in the order in which they run."""
    if spec.services.mode is ServiceMode.OFF:
        return ()
    return tuple(
        service for service in all_services() if getattr(_part(spec, service), "enabled", True)
    )


def iceberg_settings(spec: LakeTableSpec, service: Service) -> dict[str, str]:
    """How `service` runs on a table."""
    _, settings = _PARTS.get(service.name, _NO_FIELD)
    return {**settings(_part(spec, service), spec)}


def pause_of(spec: LakeTableSpec, service: Service) -> int | None:
    """How long a service rests after each run, in milliseconds."""
    every = getattr(_part(spec, service), "every", None)
    return service.pause_ms if every is None else every.ms


def _part(spec: LakeTableSpec, service: Service) -> Any:
    """What the resource says of a service, with the defaults where it says nothing."""
    default, _ = _PARTS.get(service.name, _NO_FIELD)
    return getattr(spec.services, service.name, None) or default


def _rewrite(rewrite: RewriteDataFiles, spec: LakeTableSpec) -> Mapping[str, str]:
    settings = {STRATEGY: rewrite.strategy.value.lower()}
    if rewrite.sort_by:
        columns = ", ".join(rewrite.sort_by)
        is_zorder = rewrite.strategy is RewriteStrategy.ZORDER
        settings[SORT_ORDER] = f"zorder({columns})" if is_zorder else columns
    if rewrite.filter is not None:
        settings[WHERE] = rewrite.filter
    settings |= {**engine_setting(spec), **_quiet(spec, QUIET_FOR)}
    settings["min-input-files"] = str(rewrite.min_input_files)
    if rewrite.target_file_size is not None:
        settings["target-file-size-bytes"] = str(memory_bytes(rewrite.target_file_size))
    if rewrite.partial_progress.enabled:
        settings["partial-progress.enabled"] = "true"
        settings["partial-progress.max-commits"] = str(rewrite.partial_progress.max_commits)
    return {**settings, **rewrite.options}


def _rewrite_deletes(rewrite: RewritePositionDeletes, spec: LakeTableSpec) -> Mapping[str, str]:
    return {**_quiet(spec, QUIET_FOR), **rewrite.options}


def _rewrite_manifests(rewrite: RewriteManifests, _: LakeTableSpec) -> Mapping[str, str]:
    return {MIN_MANIFESTS: str(rewrite.min_manifests)}


def _expire(expiry: ExpireSnapshots, spec: LakeTableSpec) -> Mapping[str, str]:
    settings = _quiet(spec, QUIET_FOR_MS)
    if expiry.older_than is not None:
        settings[OLDER_THAN_AGE_MS] = str(expiry.older_than.ms)
    if expiry.retain_last is not None:
        settings[RETAIN_LAST] = str(expiry.retain_last)
    return settings


def _remove_orphans(orphans: RemoveOrphanFiles, _: LakeTableSpec) -> Mapping[str, str]:
    dropped = ",".join(orphans.dropped_tables)
    return {
        OLDER_THAN_AGE_MS: str(orphans.older_than.ms),
        **({DROPPED_TABLES: dropped} if dropped else {}),
        **({DRY_RUN: "true"} if orphans.mode is OrphanMode.ADVISE else {}),
    }


def _quiet(spec: LakeTableSpec, name: str) -> dict[str, str]:
    quiet = spec.services.quiet_for
    return {} if quiet is None else {name: str(quiet.ms)}


_Part = tuple[Any, Callable[[Any, LakeTableSpec], Mapping[str, str]]]
"""What holds where the resource says nothing of a service, and the settings that it comes to."""

_NO_FIELD: _Part = (None, lambda _, __: {})
_PARTS: Mapping[str, _Part] = {
    "rewrite_data_files": (RewriteDataFiles(), _rewrite),
    "rewrite_position_deletes": (RewritePositionDeletes(), _rewrite_deletes),
    "rewrite_manifests": (RewriteManifests(), _rewrite_manifests),
    "expire_snapshots": (ExpireSnapshots(), _expire),
    "remove_orphan_files": (RemoveOrphanFiles(), _remove_orphans),
}
