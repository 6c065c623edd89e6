"""A resource together with the places it names: relative paths and store references resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tideline.ingest.location import Location
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.shared_slot import DeclaredSlot
from tideline.ingest.sources.source import Declared
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_source import LakeSource
from tideline_operator.resources.lake_store import LakeStoreSpec
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec


@dataclass(frozen=True, slots=True)
class ResolvedTable:
    """What the planner calls the spec: the resource, and the locations of everything it names.

    `sources` are those of its ingests, by the name of the ingest; `former_sources` are where they
    were before they were moved. `stores` are the LakeStores it refers to, by name. The `location`
    of an Iceberg table that a catalog keeps has no URI; its options are those of the table's files.
    """

    resource: LakeTable
    location: Location
    sources: Mapping[str, Declared]
    stores: Mapping[str, LakeStoreSpec] = field(default_factory=dict)
    former_sources: Mapping[str, Declared] = field(default_factory=dict)
    is_namespace_paused: bool = False

    @property
    def name(self) -> str:
        """Namespace and name."""
        return str(self.resource.metadata)

    @property
    def places(self) -> tuple[Location, ...]:
        """Where it is, and what its sources read."""
        read = (place for source in self.sources.values() for place in source.places)
        return (self.location, *read)

    @property
    def claimed(self) -> tuple[Location, ...]:
        """Where it is, and every place of its sources."""
        used = (claim.place for source in self.sources.values() for claim in source.claimed)
        return (self.location, *used)

    @property
    def address(self) -> str:
        """The address that identifies the table: a URI, or its catalog's and its name there."""
        catalog = self.resource.spec.home_catalog
        if catalog is None:
            return self.location.uri
        return f"{catalog.type.value}:{catalog.uri or catalog.name}#{catalog.table}"

    @property
    def spec(self) -> LakeTableSpec:
        """The spec, suspended when a pause annotation says so."""
        paused = self.is_namespace_paused or self.resource.metadata.is_paused
        return replace(self.resource.spec, suspend=True) if paused else self.resource.spec


@dataclass(frozen=True, slots=True)
class ResolvedCatalog:
    """A LakeCatalog, its place as that of a table, and what resolves its tables in the same way."""

    resource: LakeCatalog
    place: ResolvedTable
    resolve: Callable[[LakeTable], ResolvedTable]

    @classmethod
    def of(
        cls, resource: LakeCatalog, resolve: Callable[[LakeTable], ResolvedTable]
    ) -> ResolvedCatalog:
        """Raises as `resolve`."""
        return cls(resource, resolve(resource.place()), resolve)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return str(self.resource.metadata)

    def table(self, name: str, parts: tuple[str, ...]) -> ResolvedTable:
        """One of its tables, as the LakeTable `name`."""
        return self.resolve(self.resource.table(name, parts))


@dataclass(frozen=True, slots=True)
class ResolvedSource:
    """A LakeSource, one table in its place, and what resolves its tables in the same way."""

    resource: LakeSource
    stand_in: ResolvedTable
    resolve: Callable[[LakeTable], ResolvedTable]

    @classmethod
    def of(
        cls, resource: LakeSource, resolve: Callable[[LakeTable], ResolvedTable]
    ) -> ResolvedSource:
        """Raises as `resolve`."""
        return cls(resource, resolve(resource.stand_in()), resolve)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return str(self.resource.metadata)

    @property
    def declared(self) -> DeclaredPostgres:
        """How one of its tables is read."""
        (source,) = self.stand_in.sources.values()
        assert isinstance(source, DeclaredPostgres)
        return source

    @property
    def slot(self) -> DeclaredSlot:
        """The slot of its tables."""
        return self.declared.declared_slot

    def table(self, name: str, place: tuple[str, str], key: tuple[str, ...]) -> ResolvedTable:
        """One of its tables, as the LakeTable `name`, whose slot other tables share."""
        return sharing_slot(self.resolve(self.resource.table(name, place, key)))


def sharing_slot(table: ResolvedTable) -> ResolvedTable:
    """A table of a LakeSource, whose slot is moved for all of its tables."""
    shared = {
        ingest: replace(source, is_shared=True) if isinstance(source, DeclaredPostgres) else source
        for ingest, source in table.sources.items()
    }
    return replace(table, sources=shared)
