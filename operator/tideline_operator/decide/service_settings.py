"""The service part of a LakeTable in Hudi's words: settings, names, and which services run.

What a spec says in fields of its own comes first, `spec.properties` over it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.hudi.services.service import Service
from tideline.hudi.table.table_config import TIMEZONE
from tideline.iceberg.service import IcebergService
from tideline_operator.decide.iceberg_settings import ICEBERG_SPEC_NAMES
from tideline_operator.resources.lake_table import LakeTableSpec, TableType
from tideline_operator.resources.services import CleaningPolicy, ServiceMode, Services

_HUDI_SPEC_NAMES: Mapping[Service, str] = {
    Service.CLEANING: "cleaning",
    Service.ARCHIVAL: "archiving",
    Service.COMPACTION: "compaction",
    Service.LOG_COMPACTION: "logCompaction",
    Service.CLUSTERING: "clustering",
    Service.TTL: "partitionTtl",
}
SPEC_NAMES: Mapping[Service | IcebergService, str] = dict(
    [*_HUDI_SPEC_NAMES.items(), *ICEBERG_SPEC_NAMES.items()]
)
"""What the resource calls the services, in the order in which they run when several are due."""

INLINE_SERVICES_OFF: Mapping[str, str] = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
    "hoodie.log.compaction.inline": "false",
    "hoodie.clustering.inline": "false",
    "hoodie.clustering.schedule.inline": "false",
    "hoodie.partition.ttl.inline": "false",
}
"""For every write of ours: services are operations of their own."""

_SERVICES_ENABLED = "hoodie.table.services.enabled"
_RETENTION = {
    CleaningPolicy.KEEP_LATEST_COMMITS: "hoodie.clean.commits.retained",
    CleaningPolicy.KEEP_LATEST_FILE_VERSIONS: "hoodie.clean.fileversions.retained",
    CleaningPolicy.KEEP_LATEST_BY_HOURS: "hoodie.clean.hours.retained",
}
_WHENEVER_ASKED: Mapping[Service, Mapping[str, str]] = {
    Service.CLEANING: {"hoodie.clean.trigger.max.commits": "1"},
    Service.COMPACTION: {
        "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
        "hoodie.compact.inline.max.delta.commits": "1",
    },
    Service.LOG_COMPACTION: {"hoodie.log.compaction.blocks.threshold": "2"},
    Service.CLUSTERING: {
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.async.max.commits": "1",
    },
}


def wanted_services(spec: LakeTableSpec) -> tuple[Service, ...]:
    """The services that are to be looked after, in the order of SPEC_NAMES; of a Hudi table."""
    services = spec.services
    switched_off = spec.properties.get(_SERVICES_ENABLED, "").lower() == "false"
    if services.mode is ServiceMode.OFF or switched_off:
        return ()
    has_logs = spec.type is TableType.MERGE_ON_READ
    enabled = {
        Service.CLEANING: services.cleaning.enabled,
        Service.ARCHIVAL: services.archiving.enabled,
        Service.COMPACTION: services.compaction.enabled and has_logs,
        Service.LOG_COMPACTION: services.log_compaction.enabled and has_logs,
        Service.CLUSTERING: services.clustering.enabled,
        Service.TTL: services.partition_ttl.days is not None,
    }
    return tuple(service for service in _HUDI_SPEC_NAMES if enabled[service])


def service_settings(spec: LakeTableSpec) -> dict[str, str]:
    """The settings under which the services of a table run, without the table's own."""
    return {**_typed(spec.services), **zone_setting(spec), **spec.properties}


def zone_setting(spec: LakeTableSpec) -> dict[str, str]:
    """The setting that declares the zone of the table's instants, if the spec does."""
    return {} if spec.timezone is None else {TIMEZONE: spec.timezone}


def rerun_settings(service: Service) -> Mapping[str, str]:
    """Settings over all others for a run that a person asked for: its trigger says yes."""
    return _WHENEVER_ASKED.get(service, {})


def _typed(services: Services) -> dict[str, str]:
    trigger, clustering, cleaning = (
        services.compaction.trigger,
        services.clustering,
        services.cleaning,
    )
    settings = {
        "hoodie.compact.inline.trigger.strategy": trigger.strategy.value,
        "hoodie.compact.inline.max.delta.commits": str(trigger.delta_commits),
        "hoodie.compact.inline.max.delta.seconds": str(max(1, trigger.elapsed.ms // 1000)),
        "hoodie.log.compaction.blocks.threshold": str(services.log_compaction.blocks),
        "hoodie.clustering.inline.max.commits": str(clustering.every_commits),
        "hoodie.clustering.async.max.commits": str(clustering.every_commits),
        "hoodie.clean.policy": cleaning.policy.value,
        _RETENTION[cleaning.policy]: str(cleaning.retain),
        "hoodie.keep.min.commits": str(services.archiving.min_commits),
        "hoodie.keep.max.commits": str(services.archiving.max_commits),
    }
    if clustering.sort_by:
        settings["hoodie.clustering.plan.strategy.sort.columns"] = ",".join(clustering.sort_by)
    if services.partition_ttl.days is not None:
        settings["hoodie.partition.ttl.strategy.days.retain"] = str(services.partition_ttl.days)
    return settings
