"""What has many tables, LakeCatalogs and LakeSources: how each lists them, and what differs.

A catalog, or its store, is listed. Of a LakeSource the server is asked for its tables; then its
slot moves to the least position of those that it is for. Positions are of before the listing: a
table that was made since has none, and one that is read since is ahead of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol

from tideline.ingest.sources.postgres.credentials import CONNECTION
from tideline.ingest.sources.postgres.shared_slot import SlotLook, describe_held, floor_of
from tideline_operator.api_objects import LAKE_CATALOGS, LAKE_SOURCES, ApiResource, Manifest
from tideline_operator.controller.owned_tables import (
    WantedTable,
    is_older,
    owner_key,
    owner_of,
)
from tideline_operator.controller.slot_positions import Positions, SlotPositions
from tideline_operator.decide.catalog_plan import plan_catalog, resource_name
from tideline_operator.decide.observed import Problem
from tideline_operator.decide.source_plan import plan_source, table_name
from tideline_operator.reading.access import Access
from tideline_operator.reading.reader import Reader
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_source import LakeSource
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.tables_status import (
    LakeCatalogStatus,
    LakeSourceStatus,
    TablesStatus,
)

_MOVE_EVERY_S = 30.0

AdvanceSlot = Callable[[int], object]
"""Let the server remove the log up to a position. Raises as `Reader.advance_slot`."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a complete listing found: tables that are to have a LakeTable, and how many others."""

    tables: tuple[WantedTable, ...]
    found: int
    excluded: int
    left: Mapping[str, str]


class ListedOwner(Protocol):
    """One LakeCatalog or LakeSource whose spec is valid."""

    @property
    def every_s(self) -> float:
        """How often it is listed."""

    @property
    def place(self) -> LakeTable:
        """A table that stands for all of them."""

    def list(self, reader: Reader, access: Access, place: ResolvedTable) -> Listing:
        """Its tables. Raises as `Reader.list_place`."""

    def settle(self, own: Mapping[str, str], advance: AdvanceSlot) -> None:
        """What follows a listing, once its tables have LakeTables: `own` as in `OwnedTables`.
        Raises as `advance`."""

    def with_own(self, status: TablesStatus) -> TablesStatus:
        """The status with what other owners do not have."""


class OwnerKind(Protocol):
    """LakeCatalog or LakeSource."""

    @property
    def resource(self) -> ApiResource: ...

    @property
    def status(self) -> type[TablesStatus]: ...

    def parse(self, item: Manifest) -> ListedOwner:
        """Raises ConfigError."""

    def refusal(
        self, item: Manifest, others: Iterable[Manifest], tables: Iterable[Manifest]
    ) -> Problem | None:
        """What of the same namespace keeps it from being listed: others of its kind, tables."""


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """See the module."""

    resource: ClassVar[ApiResource] = LAKE_CATALOGS
    status: ClassVar[type[TablesStatus]] = LakeCatalogStatus

    def parse(self, item: Manifest) -> ListedOwner:
        return _ListedCatalog(parse_object(LakeCatalog, item))

    def refusal(
        self,
        item: Manifest,  # noqa: ARG002
        others: Iterable[Manifest],  # noqa: ARG002
        tables: Iterable[Manifest],  # noqa: ARG002
    ) -> Problem | None:
        return None


@dataclass(frozen=True, slots=True)
class SourceKind:
    """See the module. `positions` are those of all tables of LakeSources."""

    positions: SlotPositions
    resource: ClassVar[ApiResource] = LAKE_SOURCES
    status: ClassVar[type[TablesStatus]] = LakeSourceStatus

    def parse(self, item: Manifest) -> ListedOwner:
        return _ListedSource(parse_object(LakeSource, item), self.positions)

    def refusal(
        self, item: Manifest, others: Iterable[Manifest], tables: Iterable[Manifest]
    ) -> Problem | None:
        slot = _slot_of((item.get("spec") or {}).get("postgres") or {})
        for other in others:
            theirs = _slot_of((other.get("spec") or {}).get("postgres") or {})
            if theirs == slot and is_older(other, item):
                return _slot_taken(slot, other)
        for table in tables:
            is_of_people = owner_of(table) is None
            for ingest in (table.get("spec") or {}).get("ingest") or () if is_of_people else ():
                if _slot_of(ingest.get("source") or {}) == slot:
                    return _slot_taken(slot, table)
        return None


@dataclass(frozen=True, slots=True)
class _ListedCatalog:
    resource: LakeCatalog

    @property
    def every_s(self) -> float:
        return self.resource.spec.every.ms / 1000

    @property
    def place(self) -> LakeTable:
        return self.resource.place()

    def list(self, reader: Reader, access: Access, place: ResolvedTable) -> Listing:
        catalog = self.resource
        plan = plan_catalog(catalog.spec, reader.list_place(access, place))
        tables = (
            WantedTable(
                found.name,
                catalog.table(catalog.metadata.name, found.parts).spec,
                partial(resource_name, catalog, found),
            )
            for found in plan.wanted
        )
        return Listing(tuple(tables), plan.found, plan.excluded, plan.left)

    def settle(self, own: Mapping[str, str], advance: AdvanceSlot) -> None:
        """Nothing follows."""

    def with_own(self, status: TablesStatus) -> TablesStatus:
        return status


@dataclass(slots=True)
class _ListedSource:
    resource: LakeSource
    positions: SlotPositions
    _before: Positions = field(default_factory=dict)
    _look: SlotLook | None = None
    _kept: str = ""

    @property
    def every_s(self) -> float:
        return min(self.resource.spec.every.ms / 1000, _MOVE_EVERY_S)

    @property
    def place(self) -> LakeTable:
        return self.resource.stand_in()

    def list(self, reader: Reader, access: Access, place: ResolvedTable) -> Listing:
        source, self._before = self.resource, self.positions.now()
        look = self._look = reader.look_at_slot(access, place)
        plan = plan_source(source.spec.postgres, look.tables)
        wanted = {found.full_name for found in plan.wanted}
        tables = tuple(
            WantedTable(
                found.full_name,
                source.table(source.metadata.name, (found.schema, found.name), found.key).spec,
                partial(table_name, source, found),
                # What is left says so when it is looked at, where it has a LakeTable.
                is_made=found.full_name in wanted,
            )
            for found in look.tables
            if found.full_name in wanted or found.full_name in plan.left
        )
        excluded = len(look.tables) - len(tables)
        return Listing(tables, len(look.tables), excluded, plan.left)

    def settle(self, own: Mapping[str, str], advance: AdvanceSlot) -> None:
        look, slot = self._look, self.resource.spec.postgres.slot
        if look is None or look.slot is None:
            return
        held = [table for table in look.tables if table.full_name in own]
        floor = floor_of(held, {name: self._before.get(uid) for name, uid in own.items()})
        self._kept = describe_held(slot, look.slot, floor) or ""
        if floor is not None and floor.lsn is not None and floor.lsn > look.slot.confirmed:
            advance(floor.lsn)

    def with_own(self, status: TablesStatus) -> TablesStatus:
        assert isinstance(status, LakeSourceStatus)
        return status if self._look is None else replace(status, slot=self._kept)


def _slot_of(postgres: Mapping[str, Any]) -> tuple[object, ...]:
    """A slot by the server that has it, as a spec names both."""
    credentials = postgres.get("credentials") or {}
    variable = postgres.get("connectionVariable") or CONNECTION
    return postgres.get("slot"), variable, credentials.get("secretName")


def _slot_taken(slot: tuple[object, ...], by: Manifest) -> Problem:
    kind, name = owner_key(by)
    message = (
        f"spec.postgres.slot: {slot[0]} is {kind} {name}'s: give it another one, or read all "
        "tables with one LakeSource"
    )
    return Problem("SlotTaken", message, 2, False)
