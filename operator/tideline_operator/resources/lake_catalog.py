"""LakeCatalog: a catalog or a folder whose Iceberg tables are maintained by one policy."""

# ruff: noqa: RUF009 -- described() makes a dataclass field
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tideline_operator.resources.engine import Engine
from tideline_operator.resources.field import CelRule, described
from tideline_operator.resources.format_rules import hudi_service_faults, hudi_service_rules
from tideline_operator.resources.iceberg import Catalog, CatalogConnection
from tideline_operator.resources.lake_table import (
    LakeTable,
    LakeTableSpec,
    Resources,
    TableFormat,
)
from tideline_operator.resources.metadata import NAME_RULE, ObjectMeta
from tideline_operator.resources.pod_template import POD_TEMPLATE
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.services import Services
from tideline_operator.resources.sources.place_finder import LOCATION_LENGTH_MAX
from tideline_operator.resources.table_rules import STORE_RULE, store_fault
from tideline_operator.resources.tables_status import LakeCatalogStatus

QUIET_FOR = Duration(600_000)
"""How long the tables of a catalog must have been left alone by writers, unless it says so."""
_PATTERN = r"[^\s]+"
_PATTERN_MEANING = "a pattern such as sales.* without blanks"
_ONE_PLACE = "give one of location (a folder of tables that no catalog keeps) and catalog"
_ANY_TABLE = "any.table"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCatalogSpec:
    """Which tables are maintained, and how."""

    location: str = described(
        "A folder of Iceberg tables that no catalog keeps: s3://bucket/prefix, or a folder, "
        "relative to the YAML file.",
        default="",
        length_max=LOCATION_LENGTH_MAX,
        immutable=True,
    )
    catalog: CatalogConnection | None = described(
        "The catalog that keeps the tables, instead of location.", default=None
    )
    store_ref: str | None = described(
        "LakeStore with the connection to the tables' files; needed for locations such as s3://.",
        default=None,
        length_max=63,
    )
    include: tuple[str, ...] = described(
        "Patterns of the names of tables to maintain, as namespace.name: * stands for any "
        "characters, dots too, ? for one, [ab] for one of these. Without any, all.",
        default=(),
        pattern=_PATTERN,
        pattern_meaning=_PATTERN_MEANING,
        length_max=255,
        items_max=100,
    )
    exclude: tuple[str, ...] = described(
        "Patterns of the names of tables to leave alone, whatever include says.",
        default=(),
        pattern=_PATTERN,
        pattern_meaning=_PATTERN_MEANING,
        length_max=255,
        items_max=100,
    )
    every: Duration = described(
        "How often new and dropped tables are looked for.",
        default=Duration(300_000),
        length_max=16,
    )
    services: Services = described(
        "How every table is maintained, as in a LakeTable.", default_factory=Services
    )
    suspend: bool = described("Start nothing for any of its tables.", default=False)
    engine: Engine = described("What moves the rows.", default_factory=Engine)
    resources: Resources = described("What pods ask for.", default_factory=Resources)
    pod_template: Mapping[str, object] = described(
        "Pod template merged into every pod of its tables: what the restricted Pod Security "
        "Standard allows. Containers merge by name; Tideline's is called engine.",
        default_factory=dict,
        shape=POD_TEMPLATE,
    )

    RULES: ClassVar[tuple[CelRule, ...]] = (
        CelRule("has(self.location) != has(self.catalog)", _ONE_PLACE, field="location"),
        STORE_RULE,
        *hudi_service_rules(Services),
    )

    def faults(self) -> Iterator[tuple[str, str]]:
        """What no single field can say."""
        if bool(self.location) == (self.catalog is not None):
            yield "location", _ONE_PLACE
        yield from store_fault(self.location, self.store_ref)
        yield from hudi_service_faults(self.services)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCatalog:
    """A catalog, or a folder, whose Iceberg tables are maintained by one policy."""

    KIND: ClassVar[str] = "LakeCatalog"
    RULES: ClassVar[tuple[CelRule, ...]] = (NAME_RULE,)

    metadata: ObjectMeta = described("Standard metadata.")
    spec: LakeCatalogSpec = described("Desired state.")
    status: LakeCatalogStatus = described(
        "Observed state; written by Tideline.", default_factory=LakeCatalogStatus
    )

    def table(self, name: str, parts: tuple[str, ...]) -> LakeTable:
        """The LakeTable `name` of one of its tables, by the namespaces and the name of that."""
        spec = self.spec
        catalog, location = None, ""
        if spec.catalog is not None:
            given = spec.catalog
            catalog = Catalog(
                type=given.type,
                name=given.name,
                uri=given.uri,
                warehouse=given.warehouse,
                credentials=given.credentials,
                table=".".join(parts),
            )
        else:
            location = "/".join((spec.location.rstrip("/"), *parts))
        table_spec = LakeTableSpec(
            format=TableFormat.ICEBERG,
            location=location,
            catalog=catalog,
            store_ref=spec.store_ref,
            services=replace(spec.services, quiet_for=spec.services.quiet_for or QUIET_FOR),
            suspend=spec.suspend or self.metadata.is_paused,
            engine=spec.engine,
            resources=spec.resources,
            pod_template=spec.pod_template,
        )
        return LakeTable(
            metadata=ObjectMeta(name=name, namespace=self.metadata.namespace), spec=table_spec
        )

    def place(self) -> LakeTable:
        """A stand-in for the catalog as a whole, whose location is the folder of all tables."""
        parts = () if self.spec.catalog is None else tuple(_ANY_TABLE.split("."))
        return self.table(self.metadata.name, parts)
