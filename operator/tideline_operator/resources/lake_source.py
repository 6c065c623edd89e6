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
from tideline_operator.resources.field import described
from tideline_operator.resources.indexes import INDEX, INDEXES_MAX
from tideline_operator.resources.ingest import BAD_ROWS_MAX, BadRowPolicy, Ingest, Trigger
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec
from tideline_operator.resources.metadata import ObjectMeta
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.services import Services
from tideline_operator.resources.sources.place_finder import LOCATION_LENGTH_MAX
from tideline_operator.resources.sources.source import IDENTIFIER, Source, SourceFormat
from tideline_operator.resources.table_rules import store_fault

INGEST = "postgres"
"""The name of the ingest of each table."""
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
        length_max=255,
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

    def faults(self) -> Iterator[tuple[str, str]]:
        """All tables of a database are not taken in by mistake."""
        if not self.include:
            yield "include", "is empty: name tables, or write '*' for all of them"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTemplate:
    """What every table of a LakeSource has, as in a LakeTable."""

    type: TableType = described("Hudi table type.", default=TableType.COPY_ON_WRITE)
    table_version: int = described(
        "Hudi table version that tables are created with.",
        default=TABLE_VERSION,
        minimum=min(TABLE_VERSIONS),
        maximum=max(TABLE_VERSIONS),
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
        "LakeStore with the connection; needed for s3:// locations.", default=None, length_max=63
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
        "How often new and dropped tables are looked for.",
        default=Duration(30_000),
        length_max=16,
    )
    suspend: bool = described("Start nothing for any of its tables.", default=False)

    def faults(self) -> Iterator[tuple[str, str]]:
        """What no single field can say."""
        yield from store_fault(self.location, self.store_ref)
        if self.on_bad_row is BadRowPolicy.QUARANTINE and self.set_aside is None:
            yield "setAside", "is required for onBadRow: Quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSource:
    """A database whose tables become tables of the lake by one slot, with `tideline run`."""

    KIND: ClassVar[str] = "LakeSource"

    metadata: ObjectMeta = described("Standard metadata.")
    spec: LakeSourceSpec = described("Desired state.")

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
            ingest=(ingest,),
            suspend=spec.suspend or self.metadata.is_paused,
        )
        return LakeTable(
            metadata=ObjectMeta(name=name, namespace=self.metadata.namespace), spec=table_spec
        )

    def stand_in(self) -> LakeTable:
        """For the source as a whole, whose location is the folder of all tables."""
        return self.table(self.metadata.name, ("any", "table"), ("id",))
