"""The service part of a LakeTable as Hudi's settings, and which services run.

`spec.properties` override what a spec says in fields of its own. A service that the resource has no
field for runs where `spec.properties` switch it on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideline.hudi.services.cleaning.config import CleaningPolicy
from tideline.hudi.services.indexing.config import INDEXES
from tideline.hudi.services.registry import ROLLBACK, TableService, all_services
from tideline.hudi.table.table_config import ICEBERG, PUBLISH, SYNC, TIMEZONE, TableType
from tideline.publication.place import CatalogPlace
from tideline.services.service import Service
from tideline_operator.decide.engine_setting import engine_setting
from tideline_operator.decide.iceberg_settings import iceberg_settings
from tideline_operator.resources.lake_table import LakeTableSpec, Publication, TableFormat
from tideline_operator.resources.services import ServiceMode, Services

INLINE_SERVICES_OFF: Mapping[str, str] = {
    name: "false" for service in all_services() for name in service.inline_settings
}
"""For each of our writes: services are operations of their own."""

_SERVICES_ENABLED = "hoodie.table.services.enabled"
_RETENTION = {
    CleaningPolicy.KEEP_LATEST_COMMITS: "hoodie.clean.commits.retained",
    CleaningPolicy.KEEP_LATEST_FILE_VERSIONS: "hoodie.clean.fileversions.retained",
    CleaningPolicy.KEEP_LATEST_BY_HOURS: "hoodie.clean.hours.retained",
}


@dataclass(frozen=True, slots=True)
class SpecPart:
    """What a LakeTable says of one service: in which field, whether it is wanted, its settings."""

    name: str
    is_wanted: Callable[[LakeTableSpec], bool]
    settings: Callable[[Services], Mapping[str, str]] = lambda _: {}


def spec_part(service: TableService) -> SpecPart:
    """The part of the resource about a service."""
    return _PARTS.get(service.name) or _without_field(service)


def spec_name(service: Service) -> str:
    """What the resource calls a service."""
    known = _PARTS.get(service.name)
    first, *others = service.name.split("_")
    return first + "".join(map(str.capitalize, others)) if known is None else known.name


def settings_of(spec: LakeTableSpec, service: Service) -> dict[str, str]:
    """The settings under which a service of a table of either format runs."""
    is_iceberg = spec.format is TableFormat.ICEBERG
    return iceberg_settings(spec, service) if is_iceberg else service_settings(spec)


def wanted_services(spec: LakeTableSpec) -> tuple[TableService, ...]:
    """The services of a Hudi table that the operator runs, in the order in which they run.

    Rollback is not one of them: dead writers are always rolled back first.
    """
    switched_off = spec.properties.get(_SERVICES_ENABLED, "").lower() == "false"
    if spec.services.mode is ServiceMode.OFF or switched_off:
        return ()
    return tuple(
        service
        for service in all_services()
        if service != ROLLBACK and spec_part(service).is_wanted(spec)
    )


def service_settings(spec: LakeTableSpec) -> dict[str, str]:
    """The settings under which the services of a table run, without the table's own."""
    typed: dict[str, str] = {}
    for service in all_services():
        typed |= spec_part(service).settings(spec.services)
    declared = {
        **zone_setting(spec),
        **publish_setting(spec),
        **sync_setting(spec),
        **indexes_setting(spec),
        **engine_setting(spec),
    }
    return {**typed, **declared, **spec.properties}


def zone_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The setting that declares the zone of the table's instants, if the spec does."""
    return {} if spec.timezone is None else {TIMEZONE: spec.timezone}


def indexes_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The setting that names the indexes to have, if the spec does."""
    return {INDEXES: ",".join(spec.indexes)} if spec.indexes else {}


def publish_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The settings that have every commit published, and in which catalog, if the spec asks so."""
    if Publication.ICEBERG not in spec.publish:
        return {}
    catalog = spec.catalog
    if catalog is None:
        return {PUBLISH: ICEBERG}
    place = CatalogPlace.of(catalog.name, catalog.table, catalog.properties)
    return {PUBLISH: ICEBERG, **place.to_properties()}


def sync_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The settings that have every commit registered in metastores, if the spec asks so."""
    if not spec.sync:
        return {}
    found = {SYNC: ",".join(sync.kind for sync in spec.sync)}
    return found | {name: text for sync in spec.sync for name, text in sync.settings().items()}


def _without_field(service: TableService) -> SpecPart:
    def is_switched_on(spec: LakeTableSpec) -> bool:
        given = (spec.properties.get(name, "") for name in service.inline_settings)
        return any(text.lower() == "true" for text in given)

    return SpecPart(spec_name(service), is_switched_on)


def _has_logs(spec: LakeTableSpec) -> bool:
    return spec.type is TableType.MERGE_ON_READ


def _cleaning(services: Services) -> dict[str, str]:
    cleaning = services.cleaning
    return {
        "hoodie.clean.policy": cleaning.policy.value,
        _RETENTION[cleaning.policy]: str(cleaning.retain),
    }


def _archival(services: Services) -> dict[str, str]:
    return {
        "hoodie.keep.min.commits": str(services.archiving.min_commits),
        "hoodie.keep.max.commits": str(services.archiving.max_commits),
    }


def _compaction(services: Services) -> dict[str, str]:
    trigger = services.compaction.trigger
    return {
        "hoodie.compact.inline.trigger.strategy": trigger.strategy.value,
        "hoodie.compact.inline.max.delta.commits": str(trigger.delta_commits),
        "hoodie.compact.inline.max.delta.seconds": str(max(1, trigger.elapsed.ms // 1000)),
    }


def _log_compaction(services: Services) -> dict[str, str]:
    return {"hoodie.log.compaction.blocks.threshold": str(services.log_compaction.blocks)}


def _clustering(services: Services) -> dict[str, str]:
    clustering = services.clustering
    settings = {
        "hoodie.clustering.inline.max.commits": str(clustering.every_commits),
        "hoodie.clustering.async.max.commits": str(clustering.every_commits),
    }
    if clustering.sort_by:
        settings["hoodie.clustering.plan.strategy.sort.columns"] = ",".join(clustering.sort_by)
    return settings


def _partition_ttl(services: Services) -> dict[str, str]:
    days = services.partition_ttl.days
    return {} if days is None else {"hoodie.partition.ttl.strategy.days.retain": str(days)}


_PARTS: Mapping[str, SpecPart] = {
    "cleaning": SpecPart("cleaning", lambda spec: spec.services.cleaning.enabled, _cleaning),
    "archival": SpecPart("archiving", lambda spec: spec.services.archiving.enabled, _archival),
    "compaction": SpecPart(
        "compaction",
        lambda spec: spec.services.compaction.enabled and _has_logs(spec),
        _compaction,
    ),
    "log_compaction": SpecPart(
        "logCompaction",
        lambda spec: spec.services.log_compaction.enabled and _has_logs(spec),
        _log_compaction,
    ),
    "clustering": SpecPart(
        "clustering", lambda spec: spec.services.clustering.enabled, _clustering
    ),
    "partition_ttl": SpecPart(
        "partitionTtl",
        lambda spec: spec.services.partition_ttl.days is not None,
        _partition_ttl,
    ),
    "indexing": SpecPart("indexing", lambda spec: bool(spec.indexes)),
}
"""The services that the resource has fields for, by their names."""
