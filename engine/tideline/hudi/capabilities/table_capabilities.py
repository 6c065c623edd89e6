"""`TableCapabilities`: what a table is, and what Tideline may therefore do with it. Pure.

It is read once (tideline.hudi.capabilities.look) and consulted before every operation: `may`
returns None, or the refusal with its reason and what to declare. `as_json` is a public form: names
stay, new ones may be added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.errors import UnsupportedTableError
from tideline.hudi.capabilities.evidence import SchemaEvidence, WriterEvidence
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.refusal import Refusal
from tideline.hudi.capabilities.rules import Facts, refusals_of
from tideline.hudi.index.bucket_layout import BucketLayout
from tideline.hudi.table.table_config import (
    KEY_GENERATOR_CLASS,
    KEY_GENERATOR_TYPE,
    MERGE_MODE,
    MERGE_STRATEGY_ID,
    PAYLOAD_CLASS,
    TIMEZONE,
    TableConfig,
)
from tideline.hudi.timeline.known_zone import KnownZone
from tideline.settings.gate import stored_problems

FORMAT = "hudi"
RECORD_INDEX = "record_index"


@dataclass(frozen=True, slots=True)
class IndexEvidence:
    """Which index places the table's rows: `name` is None where each writer may choose its own.

    `known_from` says where that was learned. `buckets` is set where rows lie in buckets. `is_final`
    is false of a table without files, which the next writer may begin with any index. `keys` says
    where keys are unique; None in a table without partitions.
    """

    name: str | None = None
    known_from: str = "nothing on disk names one"
    buckets: BucketLayout | None = None
    is_final: bool = True
    keys: str | None = None

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        buckets = self.buckets
        return {
            "type": self.name,
            "known_from": self.known_from,
            "keys": self.keys,
            "engine": None if buckets is None else buckets.engine.value,
            "buckets": None if buckets is None else buckets.num_buckets,
            "rules": str(buckets.rules) if buckets is not None and buckets.rules.rules else None,
            "problem": (buckets.problem or None) if buckets is not None else None,
        }


@dataclass(frozen=True, slots=True)
class TableCapabilities:
    """What a Hudi table is.

    `zone` and `schema_json`, the Avro schema of its rows, are None where nothing but properties
    could be read: the table is refused altogether.
    `unreadable` are things on disk that could not be read when the capabilities were.
    """

    uri: str
    config: TableConfig
    zone: KnownZone | None = None
    index: IndexEvidence = field(default_factory=IndexEvidence)
    schema: SchemaEvidence = field(default_factory=SchemaEvidence)
    writers: WriterEvidence = field(default_factory=WriterEvidence)
    unreadable: tuple[str, ...] = ()
    schema_json: str | None = None
    refusals: Mapping[Permission, Refusal] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        facts = Facts(self.config, self.zone, self.index.buckets, self.schema_json)
        object.__setattr__(self, "refusals", refusals_of(facts))

    def may(self, permission: Permission) -> Refusal | None:
        """None where the permission is given, else why not and what to declare."""
        return self.refusals.get(permission)

    def require(self, permission: Permission) -> None:
        """Raise the refusal of the permission, if it is refused."""
        refusal = self.may(permission)
        if refusal is not None:
            raise refusal.error(self.uri)

    @property
    def is_refused(self) -> bool:
        """Whether nothing may be done with the table, not even reading it."""
        return Permission.READ in self.refusals

    @property
    def is_changed(self) -> bool:
        """Whether Tideline changes tables that lie on disk as this one does."""
        return not self.is_refused and self.config.layout.is_written

    @property
    def declarations(self) -> tuple[Refusal, ...]:
        """What has to be declared before everything that may be done can be, each once."""
        found = {refusal.declare: refusal for refusal in self.refusals.values() if refusal.declare}
        return tuple(found.values())

    @property
    def custom_merging(self) -> str | None:
        """What merges the table's rows in a way of its own; None where the merge mode is known."""
        return custom_merging(self.config)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person should know although nothing is refused for it."""
        zone = () if self.zone is None or self.zone.warning is None else (self.zone.warning,)
        stored = (
            stored_problem.message
            for stored_problem in stored_problems(self.config.properties)
            if stored_problem.risk is None
        )
        return (*zone, *stored, *self.unreadable)

    def as_json(self) -> dict[str, Any]:
        """The whole value for machines; names are stable."""
        config = self.config
        return {
            "format": FORMAT,
            "uri": self.uri,
            "name": config.name,
            "version": config.version,
            "timeline_layout": config.layout_version,
            "type": str(config.table_type),
            "record_key": list(config.record_key_fields),
            "partition_by": list(config.partition_fields),
            "ordering": list(config.ordering_fields),
            "key_generator": key_generator_text(config),
            "hive_style": config.hive_style,
            "url_encode": config.url_encode,
            "meta_columns": config.populate_meta_fields,
            "base_file_format": config.base_file_format,
            "merging": merging_json(config, self.custom_merging),
            "logs_changes": config.logs_changes,
            "index": self.index.to_json_object(),
            "timezone": zone_json(config, self.zone),
            "schema": self.schema.to_json_object(),
            "metadata_partitions": list(config.metadata_partitions),
            "writers": self.writers.to_json_object(),
            "operations": [
                {
                    "name": permission.value,
                    "may": permission not in self.refusals,
                    **_refusal_json(self.may(permission)),
                }
                for permission in Permission
            ],
            "warnings": list(self.warnings),
        }


def custom_merging(config: TableConfig) -> str | None:
    """The payload class, merge mode or strategy that is custom; None where none is."""
    try:
        _ = config.merge_mode, config.partial_updates
    except UnsupportedTableError as own:
        return str(own.value)
    return None


def merging_text(config: TableConfig) -> str:
    """How rows of one key are merged, for people."""
    custom = custom_merging(config)
    if custom is not None:
        return custom
    filled = config.partial_updates
    return str(config.merge_mode) if filled is None else f"{config.merge_mode}, {filled.mode}"


def key_generator_text(config: TableConfig) -> str:
    """The kind, or the name of a class that is custom."""
    try:
        return str(config.key_generator)
    except UnsupportedTableError:
        return config.properties.get(KEY_GENERATOR_CLASS) or config.properties[KEY_GENERATOR_TYPE]


def merging_json(config: TableConfig, custom: str | None) -> dict[str, Any]:
    """The merge mode, or what merges rows instead."""
    said = (MERGE_MODE, PAYLOAD_CLASS, MERGE_STRATEGY_ID)
    filled = config.partial_updates if custom is None else None
    return {
        "mode": None if custom is not None else str(config.merge_mode),
        "custom": custom,
        "partial_updates": None if filled is None else str(filled.mode),
        "known_from": [name for name in said if config.properties.get(name)],
    }


def zone_json(config: TableConfig, known: KnownZone | None) -> dict[str, Any]:
    """Whose clock the instants are, and how that is known."""
    example = None if known is None or known.example is None else known.example
    return {
        "property": config.timeline_timezone,
        "declared": config.properties.get(TIMEZONE) or None,
        "name": None if known is None else known.zone.name,
        "basis": None if known is None else known.basis.name.lower(),
        "tells_age": known is not None and known.knows_age,
        "minutes_from_utc_seen": None if example is None or known is None else known.ahead_minutes,
        "example": None if example is None else str(example.time),
    }


def _refusal_json(refusal: Refusal | None) -> dict[str, Any]:
    return (Refusal("") if refusal is None else refusal).to_json_object()
