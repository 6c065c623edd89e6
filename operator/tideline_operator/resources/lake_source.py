"""LakeSource: a database whose tables become tables of the lake, all by one slot."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tideline.hudi.table.layout.known_layouts import TABLE_VERSION, TABLE_VERSIONS
from tideline.hudi.table.table_config import TableType
from tideline.ingest.sources.on_truncate import OnTruncate
from tideline.ingest.sources.postgres.credentials import CONNECTION
from tideline.ingest.sources.postgres.declared import CHANGES_MAX
from tideline_operator.resources.engine import Engine
from tideline_operator.resources.field import CelRule, described
from tideline_operator.resources.indexes import INDEX, INDEXES_MAX
from tideline_operator.resources.ingest import BAD_ROWS_MAX, BadRowPolicy, Ingest, Trigger
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec, Resources
from tideline_operator.resources.metadata import NAME_RULE, ObjectMeta
from tideline_operator.resources.pod_template import POD_TEMPLATE
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.services import Services
from tideline_operator.resources.sources.place_finder import LOCATION_LENGTH_MAX
from tideline_operator.resources.sources.source import IDENTIFIER, Source, SourceFormat
from tideline_operator.resources.sources.source_credentials import (
    FROM_SECRET_RULE,
    SourceCredentials,
    secret_fault,
)
from tideline_operator.resources.table_rules import STORE_RULE, store_fault
from tideline_operator.resources.tables_status import LakeSourceStatus

INGEST = "postgres"
"""The name of the ingest of each table."""
_NONE_INCLUDED = "is empty: name tables, or write '*' for all of them"
_NO_SET_ASIDE = "is required for onBadRow: Quarantine"
_PATTERN: Mapping[str, Any] = {
    "pattern": r"[^\s]+",
    "pattern_meaning": "a pattern such as public.* without blanks",
    "length_max": 255,
    "items_max": 1000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTables:
    """Tables of Postgres, read by one slot."""

    include: tuple[str, ...] = described(
        "Patterns of the names of tables, as schema.name: * stands for any characters, ? for one, "
        "[ab] for one of these. A table that comes later and matches is taken in as well.",
        **_PATTERN,
    )
    exclude: tuple[str, ...] = described(
        "Patterns of the names of tables to leave alone, whatever include says.",
        default=(),
        **_PATTERN,
    )
    slot: str = described(
        "Replication slot, of this LakeSource alone. It is made where it is missing, and keeps the "
        "log of the server until all tables have it.",
        **IDENTIFIER,
    )
    publication: str | None = described(
        "Publication of the tables; named like the slot by default. It is made where it is "
        "missing, and grows by each table that it does not have.",
        default=None,
        **IDENTIFIER,
    )
    connection_variable: str | None = described(
        f"Variable of the environment that has the connection string; {CONNECTION} by default.",
        default=None,
        pattern=r"[A-Z_][A-Z0-9_]*",
        pattern_meaning="the name of a variable in capitals",
        length_max=63,
    )
    credentials: SourceCredentials | None = described(
        "Credentials for the server; needed in a cluster.", default=None
    )
    on_truncate: OnTruncate | None = described(
        "What happens where a table is emptied: Fail, the default, stops its ingest; Ignore keeps "
        "the rows; Delete deletes them, in one commit with what comes after.",
        default=None,
    )
    max_changes_per_commit: int = described(
        "Largest number of changes, or of copied rows, in one commit of one table. A transaction "
        "is not divided.",
        default=CHANGES_MAX,
        minimum=1,
        maximum=10_000_000,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("self.include.size() > 0", _NONE_INCLUDED, field="include"),
        FROM_SECRET_RULE,
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """All tables of a database are not taken in by mistake."""
        if not self.include:
            yield "include", _NONE_INCLUDED
        yield from secret_fault(self.credentials, self.connection_variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTemplate:
    """What every table of a LakeSource has, as in a LakeTable."""

    type: TableType = described("Hudi table type.", default=TableType.COPY_ON_WRITE, immutable=True)
    table_version: int = described(
        "Hudi table version that tables are created with.",
        default=TABLE_VERSION,
        minimum=min(TABLE_VERSIONS),
        maximum=max(TABLE_VERSIONS),
        immutable=True,
    )
    indexes: tuple[str, ...] = described(
        "Indexes of Hudi's metadata table to have, as in a LakeTable.",
        default=(),
        **INDEX,
        items_max=INDEXES_MAX,
    )
    properties: Mapping[str, str] = described(
        "Properties (hoodie.*, tideline.*) passed on as they are.",
        default_factory=dict,
        length_max=4096,
        items_max=200,
        may_be_empty=True,
    )
    services: Services = described("Table services.", default_factory=Services)
    engine: Engine = described("What moves the rows.", default_factory=Engine)
    resources: Resources = described("What pods ask for.", default_factory=Resources)
    pod_template: Mapping[str, object] = described(
        "Pod template merged into every pod of its tables, as in a LakeTable.",
        default_factory=dict,
        shape=POD_TEMPLATE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSourceSpec:
    """Which tables become tables of the lake, where, and how."""

    postgres: PostgresTables = described("The tables, and how they are read.")
    location: str = described(
        "The folder of the tables, s3://bucket/prefix or relative to the YAML file: public.orders "
        "becomes the table in <location>/public/orders.",
        length_max=LOCATION_LENGTH_MAX,
        immutable=True,
    )
    store_ref: str | None = described(
        "LakeStore with the connection; needed for locations such as s3://.",
        default=None,
        length_max=63,
    )
    set_aside: str | None = described(
        "Folder for rows that cannot be taken in, with onBadRow: Quarantine.",
        default=None,
        length_max=LOCATION_LENGTH_MAX,
    )
    table: TableTemplate = described(
        "What every table has. Its recordKey is the primary key in Postgres.",
        default_factory=TableTemplate,
    )
    trigger: Trigger = described(
        "When each table is looked at.", default_factory=lambda: Trigger(every=Duration(5_000))
    )
    on_bad_row: BadRowPolicy = described(
        "What happens to a row that cannot be taken in: Fail stops the ingest of its table, "
        "Quarantine keeps it in setAside.",
        default=BadRowPolicy.FAIL,
    )
    max_bad_rows: int = described(
        "Largest number of rows of one commit that are set aside.",
        default=100,
        minimum=1,
        maximum=BAD_ROWS_MAX,
    )
    every: Duration = described(
        "How often new and dropped tables are looked for; in a cluster every 30s at least, when "
        "the slot moves as well.",
        default=Duration(30_000),
        length_max=16,
    )
    suspend: bool = described("Start nothing for any of its tables.", default=False)

    RULES: ClassVar[tuple[CelRule, ...]] = (
        STORE_RULE,
        CelRule(
            "!has(self.onBadRow) || self.onBadRow != 'Quarantine' || has(self.setAside)",
            _NO_SET_ASIDE,
            field="setAside",
        ),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """What no single field can say."""
        yield from store_fault(self.location, self.store_ref)
        if self.on_bad_row is BadRowPolicy.QUARANTINE and self.set_aside is None:
            yield "setAside", _NO_SET_ASIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSource:
    """A database whose tables become tables of the lake by one slot."""

    KIND: ClassVar[str] = "LakeSource"
    RULES: ClassVar[tuple[CelRule, ...]] = (NAME_RULE,)

    metadata: ObjectMeta = described("Standard metadata.")
    spec: LakeSourceSpec = described("Desired state.")
    status: LakeSourceStatus = described(
        "Observed state; written by Tideline.", default_factory=LakeSourceStatus
    )

    def table(self, name: str, place: tuple[str, str], key: tuple[str, ...]) -> LakeTable:
        """The LakeTable `name` of one of its tables, by the schema, the name and the key of
        that."""
        spec, template, postgres = self.spec, self.spec.table, self.spec.postgres
        ingest = Ingest(
            name=INGEST,
            source=Source(
                format=SourceFormat.POSTGRES,
                table=".".join(place),
                slot=postgres.slot,
                publication=postgres.publication,
                connection_variable=postgres.connection_variable,
                credentials=postgres.credentials,
                on_truncate=postgres.on_truncate,
                max_records_per_commit=postgres.max_changes_per_commit,
                set_aside=spec.set_aside,
            ),
            trigger=spec.trigger,
            on_bad_row=spec.on_bad_row,
            max_bad_rows=spec.max_bad_rows,
        )
        table_spec = LakeTableSpec(
            location="/".join((spec.location.rstrip("/"), *place)),
            store_ref=spec.store_ref,
            record_key=key,
            type=template.type,
            table_version=template.table_version,
            indexes=template.indexes,
            properties=template.properties,
            services=template.services,
            engine=template.engine,
            resources=template.resources,
            pod_template=template.pod_template,
            ingest=(ingest,),
            suspend=spec.suspend or self.metadata.is_paused,
        )
        return LakeTable(
            metadata=ObjectMeta(name=name, namespace=self.metadata.namespace), spec=table_spec
        )

    def stand_in(self) -> LakeTable:
        """For the source as a whole, whose location is the folder of all tables."""
        return self.table(self.metadata.name, ("any", "table"), ("id",))
