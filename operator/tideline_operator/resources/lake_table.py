"""LakeTable: the one definition of a table's desired state, for the CLI and the operator alike."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from tideline.errors import ConfigError
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION, TABLE_VERSIONS
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.zone import TimelineZone
from tideline.iceberg.metadata.table_metadata import FORMAT_VERSION, FORMAT_VERSIONS
from tideline.settings.gate import problem_of
from tideline.settings.setting import SettingPlace
from tideline_operator.resources.engine import Engine
from tideline_operator.resources.field import CelRule, described
from tideline_operator.resources.format_rules import (
    ICEBERG_SERVICE_NAMES,
    SERVICE_NAMES,
    format_faults,
    format_rules,
)
from tideline_operator.resources.iceberg import Catalog
from tideline_operator.resources.indexes import INDEX, INDEX_RULES, INDEXES_MAX, index_faults
from tideline_operator.resources.ingest import (
    COLUMN,
    COLUMN_MEANING,
    COLUMN_PATTERN,
    ONE_SOURCE_SECRET,
    ColumnSpec,
    Ingest,
    source_secret_keys,
    source_secrets,
)
from tideline_operator.resources.key_generation import KeyGeneration
from tideline_operator.resources.metadata import (
    NAME,
    NAME_RULE,
    ObjectMeta,
)
from tideline_operator.resources.pod_template import POD_TEMPLATE
from tideline_operator.resources.quantity import QUANTITY
from tideline_operator.resources.services import Services
from tideline_operator.resources.sources.place_finder import LOCATION_LENGTH_MAX
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.resources.sync import SYNCS_MAX, Sync
from tideline_operator.resources.table_rules import (
    EVENT_TIME,
    TABLE_RULES,
    TABLE_VERSIONS_TEXT,
    store_fault,
)
from tideline_operator.resources.uniqueness import (
    UNIQUENESS_RULES,
    Uniqueness,
    uniqueness_faults,
)

INGESTS_MAX = 32
_TRANSFORMED = (
    rf"(identity|year|month|day|hour)\({COLUMN_PATTERN}\)"
    rf"|(bucket|truncate)\([1-9][0-9]{{0,8}}, ?{COLUMN_PATTERN}\)"
)
_PARTITION_PATTERN = rf"({COLUMN_PATTERN}(:(SIMPLE|TIMESTAMP))?|{_TRANSFORMED})"
_MEMORY = "Memory of the whole container: JVM, Python and Arrow."


class TableFormat(Enum):
    """Table formats."""

    HUDI = "Hudi"
    ICEBERG = "Iceberg"


class Publication(Enum):
    """Formats as which other engines read a Hudi table."""

    ICEBERG = "Iceberg"


_MOVING = tuple(kind for kind in IndexType if kind.traits.moves_setting)
"""Indexes that move a row whose partition changed."""


class DeletionPolicy(Enum):
    """What becomes of the data when the resource is deleted."""

    RETAIN = "Retain"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The index of the table."""

    type: IndexType = described("Kind of index.")
    buckets: int | None = described(
        "Number of buckets of a BUCKET index; fixed for the table's life.",
        default=None,
        minimum=1,
        maximum=65_536,
    )
    update_partition_path: bool | None = described(
        "Whether a global index moves a row whose partition changed (Hudi's default: yes).",
        default=None,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.buckets) || self.type == 'BUCKET'",
            "only a BUCKET index has buckets",
            field="buckets",
        ),
        CelRule(
            f"!has(self.updatePartitionPath) || self.type in {[kind.value for kind in _MOVING]}",
            "only a global index moves rows",
            field="updatePartitionPath",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """Each option belongs to the kinds that have it."""
        if self.buckets is not None and self.type is not IndexType.BUCKET:
            yield "buckets", f"only a BUCKET index has buckets, not {self.type.value}"
        if self.update_partition_path is not None and self.type not in _MOVING:
            yield "updatePartitionPath", f"only a global index moves rows, not {self.type.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRequest:
    """A savepoint to keep."""

    name: str = described(
        "Name of the savepoint.",
        **NAME,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """What a pod asks for."""

    cpu: str = described("CPU.", default="500m", **QUANTITY)
    memory: str = described(_MEMORY, default="1Gi", **QUANTITY)
    ephemeral_storage: str | None = described(
        "Room on the node's disk, for what Spark spills: requested, and a pod that takes more is "
        "evicted.",
        default=None,
        **QUANTITY,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverResources(PodResources):
    """What a driver pod asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorResources(PodResources):
    """What executor pods ask for."""

    memory: str = described(_MEMORY, default="2Gi", **QUANTITY)
    min: int = described("Fewest executors.", default=0, minimum=0, maximum=10_000)
    max: int = described("Most executors.", default=2, minimum=1, maximum=10_000)

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("self.min <= self.max", "must not be greater than max", field="min"),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """min <= max."""
        if self.min > self.max:
            yield "min", f"must not be greater than max ({self.max})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the pods of an operation ask for; `tideline run` uses this machine as it is."""

    driver: DriverResources = described("The driver.", default_factory=DriverResources)
    executor: ExecutorResources = described("The executors.", default_factory=ExecutorResources)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTableSpec:
    """Desired state of one table."""

    location: str = described(
        "Where the table lives: s3://bucket/prefix, or a folder, relative to the YAML file.",
        default="",
        length_max=LOCATION_LENGTH_MAX,
        immutable=True,
    )
    catalog: Catalog | None = described(
        "The catalog that keeps an Iceberg table, instead of location; or the one in which readers "
        "find a Hudi table with publish: [Iceberg].",
        default=None,
    )
    store_ref: str | None = described(
        "LakeStore with the connection; needed for locations such as s3://.",
        default=None,
        length_max=63,
    )
    format: TableFormat = described(
        "Hudi or Iceberg; of a table that is made here, or that others make.",
        default=TableFormat.HUDI,
        immutable=True,
    )
    type: TableType = described("Hudi table type.", default=TableType.COPY_ON_WRITE, immutable=True)
    table_version: int = described(
        "Hudi table version that the table is created with: 6 (Hudi 0.14 and later), 8 (1.0) or 9 "
        "(1.1). A table that exists keeps its own.",
        default=TABLE_VERSION,
        minimum=min(TABLE_VERSIONS),
        maximum=max(TABLE_VERSIONS),
        immutable=True,
    )
    format_version: int | None = described(
        "Version of an Iceberg table: it is created as 2 where this is left out, or as 3 (ids of "
        "rows, deletion vectors). A table of a lower version is upgraded, which nothing takes "
        "back; one of a higher version is refused.",
        default=None,
        minimum=FORMAT_VERSION,
        maximum=max(FORMAT_VERSIONS),
    )
    record_key: tuple[str, ...] = described(
        "Columns that identify a row.",
        default=(),
        **COLUMN,
        items_max=16,
        immutable=True,
    )
    partition_by: tuple[str, ...] = described(
        "Columns whose values are the partition path. An Iceberg table that is created takes "
        "transforms of columns too: year(ts), month(ts), day(ts), hour(ts), bucket(16, id), "
        "truncate(4, name).",
        default=(),
        pattern=_PARTITION_PATTERN,
        pattern_meaning=COLUMN_MEANING + ", with :SIMPLE or :TIMESTAMP for a CUSTOM key generator, "
        "or a transform of one such as day(ts) or bucket(16, id)",
        length_max=255,
        items_max=16,
        immutable=True,
    )
    ordering: tuple[str, ...] = described(
        "Columns that decide between two rows of one key: the higher value wins. Without them the "
        "row that arrives later wins.",
        default=(),
        **COLUMN,
        items_max=8,
        immutable=True,
    )
    index: Index | None = described("Index of the table; Hudi's default otherwise.", default=None)
    indexes: tuple[str, ...] = described(
        "Indexes of Hudi's metadata table to have: what is missing is made once the table has a "
        "commit, also where another writer dropped it; what is not listed stays. column_stats, "
        "partition_stats, record_index (keys are unique in the whole table from then on), "
        "bloom_filters, secondary_index_ and a column.",
        default=(),
        **INDEX,
        items_max=INDEXES_MAX,
    )
    uniqueness: Uniqueness | None = described(
        "Where a record key is stored once: Partition, or Table, which takes a global index: a row "
        "whose partition changes moves. Left out, the index decides.",
        default=None,
    )
    key_generator: KeyGeneration = described(
        "How keys and partition paths are written.",
        default_factory=KeyGeneration,
        immutable=True,
    )
    schema: tuple[ColumnSpec, ...] = described(
        "Columns of the table; without it the first batch decides.",
        default=(),
        items_max=2000,
        item_key="name",
    )
    timezone: str | None = described(
        "Zone of the instants of a table that other engines write, such as America/Los_Angeles, "
        "where hoodie.table.timeline.timezone is LOCAL, Hudi's default.",
        default=None,
        length_max=64,
    )
    publish: tuple[Publication, ...] = described(
        "Formats whose metadata is written over the table's files after every commit, for engines "
        "that do not read Hudi: in the table's folder, known to the catalog where one is named.",
        default=(),
        items_max=4,
    )
    sync: tuple[Sync, ...] = described(
        "Metastores in which a Hudi table is registered after every commit, for engines that find "
        "tables by their names; each kind once.",
        default=(),
        items_max=SYNCS_MAX,
    )
    properties: Mapping[str, str] = described(
        "Properties (hoodie.*, tideline.*) passed on as they are.",
        default_factory=dict,
        length_max=4096,
        items_max=200,
        may_be_empty=True,
    )
    ingest: tuple[Ingest, ...] = described(
        "Landing prefixes to take files from.",
        default=(),
        items_max=INGESTS_MAX,
        item_key="name",
    )
    services: Services = described("Table services.", default_factory=Services)
    savepoints: tuple[SavepointRequest, ...] = described(
        "Savepoints to keep.", default=(), items_max=32, item_key="name"
    )
    restore_to: str | None = described(
        "Savepoint or instant to go back to. Ingest stays fenced until this is removed.",
        default=None,
        length_max=63,
    )
    rerun: Mapping[str, int] = described(
        "Service or ingest name and a number: a higher number than before runs it once more.",
        default_factory=dict,
        minimum=0,
        items_max=64,
    )
    resync: Mapping[str, int] = described(
        "Ingest name and a number: a higher number than before has its table of Postgres copied "
        "again, into the same rows; those that the source has no more are deleted behind it.",
        default_factory=dict,
        minimum=0,
        items_max=16,
    )
    suspend: bool = described("Start nothing for this table.", default=False)
    fenced: bool = described("No writers; services may continue.", default=False)
    deletion_policy: DeletionPolicy = described(
        "What becomes of the data when the resource is deleted.", default=DeletionPolicy.RETAIN
    )
    engine: Engine = described("What moves the rows.", default_factory=Engine)
    resources: Resources = described("What pods ask for.", default_factory=Resources)
    pod_template: Mapping[str, object] = described(
        "Pod template merged into every pod of this table: what the restricted Pod Security "
        "Standard allows. Containers merge by name; Tideline's is called engine.",
        default_factory=dict,
        shape=POD_TEMPLATE,
    )

    RULES: ClassVar[tuple[CelRule, ...]]

    @property
    def home_catalog(self) -> Catalog | None:
        """The catalog that keeps the table; a Hudi table is only published in its catalog."""
        return self.catalog if self.format is TableFormat.ICEBERG else None

    @property
    def source_secret(self) -> str | None:
        """The Secret with the credentials of its sources, which is one."""
        return next(iter(source_secrets(self.ingest)), None)

    @property
    def source_secret_keys(self) -> tuple[str, ...]:
        """Its keys that the sources take, each as the variable of its name."""
        return source_secret_keys(self.ingest)

    def faults(self) -> Iterator[tuple[str, str]]:
        """What no single field can say."""
        is_iceberg = self.format is TableFormat.ICEBERG
        yield from format_faults(self, is_iceberg=is_iceberg)
        if self.table_version not in TABLE_VERSIONS:
            yield "tableVersion", f"must be one of {TABLE_VERSIONS_TEXT}"
        if not is_iceberg and not self.record_key:
            yield "recordKey", "is required: the columns that identify a row"
        yield from store_fault(self.location, self.store_ref)
        yield from self._unknown_zone()
        kind = None if self.index is None else self.index.type.value
        yield from uniqueness_faults(self.uniqueness, kind, self.properties)
        yield from index_faults(self)
        mode, event_time = EVENT_TIME
        if self.properties.get(mode) == event_time and not self.ordering:
            yield "ordering", f"is required for {mode}: {event_time}"
        yield from _repeated("recordKey", self.record_key)
        yield from _repeated("partitionBy", self.partition_by)
        yield from _repeated("ordering", self.ordering)
        yield from _repeated("ingest", tuple(ingest.name for ingest in self.ingest))
        if len(source_secrets(self.ingest)) > 1:
            yield "ingest", ONE_SOURCE_SECRET
        yield from _repeated("sync", tuple(sync.kind for sync in self.sync))
        yield from _repeated("savepoints", tuple(savepoint.name for savepoint in self.savepoints))
        yield from _repeated("schema", tuple(column.name.lower() for column in self.schema))
        yield from self._columns_missing_from_schema()
        services = ICEBERG_SERVICE_NAMES if is_iceberg else SERVICE_NAMES
        runnable = {*services, *(ingest.name for ingest in self.ingest)}
        for name in sorted(set(self.rerun) - runnable):
            yield f"rerun.{name}", f"unknown name; allowed: {', '.join(sorted(runnable))}"
        known = {ingest.name for ingest in self.ingest}
        for name in sorted(set(self.resync) - known):
            yield f"resync.{name}", "is no ingest of this table"
        for name, text in self.properties.items():
            if not re.fullmatch(r"(hoodie|tideline)\.[A-Za-z0-9._-]+", name):
                yield f"properties.{name}", "only hoodie.* and tideline.* properties are passed on"
            elif not is_iceberg and (problem := problem_of(name, text, SettingPlace.LAKE_TABLE)):
                yield f"properties.{name}", problem

    def _unknown_zone(self) -> Iterator[tuple[str, str]]:
        try:
            _ = self.timezone is not None and TimelineZone.parse(self.timezone)
        except ConfigError as error:
            yield "timezone", error.message

    def _columns_missing_from_schema(self) -> Iterator[tuple[str, str]]:
        if not self.schema:
            return
        declared = {column.name.lower() for column in self.schema}
        named = (
            ("recordKey", self.record_key),
            ("partitionBy", self.partition_by),
            ("ordering", self.ordering),
            ("services.clustering.sortBy", self.services.clustering.sort_by),
        )
        for path, columns in named:
            for position, column in enumerate(columns):
                # The column of `bucket(16, id)` is the last that it names.
                last = re.split(r"[(,]", column.rstrip(")"))[-1].strip()
                top = re.split(r"[.:]", last)[0]
                if top.lower() not in declared:
                    yield f"{path}[{position}]", f"spec.schema has no column {top!r}"


# What a format refuses follows from the fields' defaults.
LakeTableSpec.RULES = (
    *TABLE_RULES,
    *UNIQUENESS_RULES,
    *INDEX_RULES,
    *format_rules(LakeTableSpec, Services),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A lakehouse table: what it is, what lands in it, and how it is maintained."""

    KIND: ClassVar[str] = "LakeTable"
    RULES: ClassVar[tuple[CelRule, ...]] = (NAME_RULE,)

    metadata: ObjectMeta = described("Standard metadata.")
    spec: LakeTableSpec = described("Desired state.")
    status: LakeTableStatus = described(
        "Observed state; written by Tideline.", default_factory=LakeTableStatus
    )


def _repeated(path: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for position, name in enumerate(names):
        if name in names[:position]:
            yield f"{path}[{position}]", f"{name!r} appears twice"
