"""Whether a service of an Iceberg table is due, and why: from what was observed. Pure.

1. `spec.rerun` has a number for it that has not been run, or
2. a rewrite planned on the newest snapshot would take files, snapshots are past their age, or the
   search for orphan files is due again.

As long as the files of the newest snapshot are not counted, what depends on them waits. No file of
a table that shares its files with another (`gc.enabled`) is deleted. A table that a Hudi table is
published as is left alone: the services of the Hudi table are its own.
"""

from __future__ import annotations

from tideline.errors import ConfigError, TidelineError, UnsupportedTableError
from tideline.iceberg.metadata.owner import OWNER
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.service import IcebergService
from tideline.iceberg.services.arguments import expire_options
from tideline.iceberg.services.expire_snapshots.plan import plan_expire
from tideline.iceberg.services.table_setting import refuse_without_gc
from tideline.wording import counted, size_text
from tideline_operator.decide.iceberg_settings import (
    ICEBERG_SPEC_NAMES,
    iceberg_settings,
    manifest_settings,
    orphan_settings,
    wanted_iceberg_services,
)
from tideline_operator.decide.observed_iceberg import IcebergFiles, ObservedIceberg, RewriteOutlook
from tideline_operator.decide.service_triggers import ServiceNeed
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.status import LakeTableStatus, ServiceStatus

_NOT_COUNTED = "the newest snapshot is not counted yet"
_PUBLICATION = "a Hudi table is published as this one, and its own services maintain both"


def iceberg_needs(
    spec: LakeTableSpec, status: LakeTableStatus, table: ObservedIceberg, now_ms: int
) -> tuple[ServiceNeed, ...]:
    """For every wanted service, whether it is due; in the order in which they run."""
    return tuple(
        _need(service, spec, status, table, now_ms) for service in wanted_iceberg_services(spec)
    )


def _need(
    service: IcebergService,
    spec: LakeTableSpec,
    status: LakeTableStatus,
    table: ObservedIceberg,
    now_ms: int,
) -> ServiceNeed:
    name = ICEBERG_SPEC_NAMES[service]
    known = status.services.get(name, ServiceStatus())
    wanted = spec.rerun.get(name, 0)
    if OWNER in table.metadata.properties:
        return ServiceNeed(service, False, _PUBLICATION)
    try:
        if wanted > known.rerun:
            return ServiceNeed(service, True, f"spec.rerun asks for run {wanted}", rerun=wanted)
        match service:
            case IcebergService.REWRITE_DATA_FILES:
                return _data_files(table.files)
            case IcebergService.REWRITE_POSITION_DELETES:
                return _deletes(table.files)
            case IcebergService.REWRITE_MANIFESTS:
                return _manifests(spec, table.files)
            case IcebergService.EXPIRE_SNAPSHOTS:
                return _snapshots(spec, table, now_ms)
            case IcebergService.REMOVE_ORPHAN_FILES:
                return _orphans(spec, table, known, now_ms)
    except TidelineError as error:
        return ServiceNeed(service, False, str(error), problem=error)


def _data_files(files: IcebergFiles | None) -> ServiceNeed:
    service = IcebergService.REWRITE_DATA_FILES
    if files is None:
        return ServiceNeed(service, False, _NOT_COUNTED)
    if files.problem is not None:
        raise files.problem
    left = "".join(f"; {words}" for words in files.left)
    if files.rewrite is not None:
        return ServiceNeed(service, True, _promise("data file", files.rewrite) + left)
    small = f"{_percent(files.small_files, files.files)} are small"
    deleted = f"{_percent(files.files_with_deletes, files.files)} have deletes"
    reason = f"nothing to gain: of {counted(files.files, 'data file')} {small}, {deleted}"
    if files.quiet_at_ms is not None:
        reason += "; partitions that other writers changed lately are left to them (quietFor)"
    return ServiceNeed(service, False, reason + left if files.files else "there are no data files")


def _deletes(files: IcebergFiles | None) -> ServiceNeed:
    service = IcebergService.REWRITE_POSITION_DELETES
    if files is None:
        return ServiceNeed(service, False, _NOT_COUNTED)
    if isinstance(files.deletes, ConfigError):
        raise files.deletes
    if isinstance(files.deletes, UnsupportedTableError):
        return ServiceNeed(service, False, str(files.deletes))
    if files.deletes is not None:
        return ServiceNeed(service, True, _promise("position delete file", files.deletes))
    reason = f"nothing to gain: {counted(files.delete_files, 'delete file')}"
    return ServiceNeed(service, False, reason if files.delete_files else "there are no deletes")


def _manifests(spec: LakeTableSpec, files: IcebergFiles | None) -> ServiceNeed:
    service = IcebergService.REWRITE_MANIFESTS
    if files is None:
        return ServiceNeed(service, False, _NOT_COUNTED)
    outlook, least = files.manifest_rewrite, manifest_settings(spec.services).min_manifests
    if outlook is None:
        found = counted(files.manifests, "manifest")
        return ServiceNeed(service, False, f"nothing to gain: {found}")
    if outlook.files_before >= least:
        return ServiceNeed(service, True, _promise("manifest", outlook))
    found = (
        f"{outlook.files_before:,} of {counted(files.manifests, 'manifest')} small or overlapping"
    )
    return ServiceNeed(service, False, f"{found}; a rewrite takes at least {least:,}")


def _snapshots(spec: LakeTableSpec, table: ObservedIceberg, now_ms: int) -> ServiceNeed:
    service = IcebergService.EXPIRE_SNAPSHOTS
    shared = _why_kept(table.metadata)
    if shared is not None:
        return ServiceNeed(service, False, shared)
    arguments = iceberg_settings(spec, service).arguments
    plan = plan_expire(table.metadata, expire_options(arguments, now_ms=now_ms), now_ms=now_ms)
    if plan.is_empty:
        return ServiceNeed(
            service, False, f"nothing to expire: {counted(len(plan.kept_ids), 'snapshot')}"
        )
    words = [f"{len(plan.snapshot_ids):,} of {counted(len(table.metadata.snapshots), 'snapshot')}"]
    if plan.refs:
        words.append(counted(len(plan.refs), "ref"))
    return ServiceNeed(service, True, f"{' and '.join(words)} are past their age")


def _orphans(
    spec: LakeTableSpec, table: ObservedIceberg, known: ServiceStatus, now_ms: int
) -> ServiceNeed:
    service = IcebergService.REMOVE_ORPHAN_FILES
    orphans = orphan_settings(spec.services)
    shared = _why_kept(table.metadata)
    if shared is not None:
        return ServiceNeed(service, False, shared)
    every = str(orphans.every)
    if known.last_run is not None and now_ms - known.last_run.ms < orphans.every.ms:
        since = Duration(max(1_000, (now_ms - known.last_run.ms) // 1_000 * 1_000))
        return ServiceNeed(service, False, f"last search was {since} ago; one is due every {every}")
    return ServiceNeed(service, True, f"a search is due every {every}")


def _why_kept(metadata: TableMetadata) -> str | None:
    """Why no file of the table may be deleted, None when they may."""
    try:
        refuse_without_gc(metadata)
    except ConfigError as error:
        return error.message
    return None


def _promise(what: str, outlook: RewriteOutlook) -> str:
    """`24 data files (1.2 MB) would become 3: enough files of the wrong size`."""
    size = size_text(outlook.bytes_before)
    why = f": {'; '.join(outlook.reasons)}" if outlook.reasons else ""
    return (
        f"{counted(outlook.files_before, what)} ({size}) would become {outlook.files_after:,}{why}"
    )


def _percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole) if whole else 0} %"
