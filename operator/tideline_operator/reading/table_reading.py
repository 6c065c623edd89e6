"""Reading tables in this process: what a reading process does, and `tideline run` with one user."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar

from tideline.clock import Clock
from tideline.errors import ObjectNotFoundError
from tideline.iceberg.table.found_table import FoundTable
from tideline.ingest.location import Location
from tideline.ingest.sources.postgres.declared import DeclaredPostgres
from tideline.ingest.sources.postgres.shared_slot import DeclaredSlot, SlotLook
from tideline.ingest.sources.postgres.wire.look import advance_slot_by, look_at_slot_by
from tideline.ingest.sources.source import Connect, Reach
from tideline.storage.object_store import ObjectStore
from tideline.storage.probe.report import StoreReport
from tideline.storage.probe.run import check_quickly
from tideline_operator.decide.observed import Observed
from tideline_operator.observe.iceberg_source import IcebergSource, open_source
from tideline_operator.observe.observation import Observer
from tideline_operator.observe.warehouse import list_warehouse
from tideline_operator.reading.access import Access
from tideline_operator.reading.claim_check import check_list, check_write
from tideline_operator.reading.deleted_table import (
    DeletionCheck,
    Removal,
    Removals,
    RemovalStep,
    check_deletion,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

_NOT_THERE = ".tideline-look"
"""An object that never exists: the answer to a read of it distinguishes a missing bucket from a
missing object, and needs no right but to read below the place."""

_access: ContextVar[Access] = ContextVar("tideline_operator_access")


class TableReading:
    """See `Reader`. Remembers what the observer does, for the tables that it is asked about."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._observer = Observer(clock, _open_store, _open_iceberg, _reach)
        self._removals = Removals(clock)

    def observe(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        """See `Reader.observe`."""
        with _using(access):
            return self._observer.observe(table, status, running=running)

    def forget(self, table: ResolvedTable) -> None:
        """See `Reader.forget`."""
        self._observer.forget(table)

    def list_place(self, access: Access, place: ResolvedTable) -> tuple[FoundTable, ...]:
        """See `Reader.list_place`."""
        with _using(access), access.asking_catalog():
            return list_warehouse(
                place,
                _open_store,
                credentials=access.catalog,
                timeout_s=access.catalog_timeout_s,
                access=access.catalog_access,
            )

    def look_at_slot(self, access: Access, place: ResolvedTable) -> SlotLook:
        """See `Reader.look_at_slot`."""
        with _using(access), _slot_of(place) as (slot, variables, connect):
            return look_at_slot_by(slot, variables, connect)

    def advance_slot(self, access: Access, place: ResolvedTable, lsn: int) -> bool:
        """See `Reader.advance_slot`."""
        with _using(access), _slot_of(place) as (slot, variables, connect):
            access.may_write()
            return advance_slot_by(slot, variables, connect, lsn)

    def probe(self, access: Access, table: ResolvedTable, place: Location) -> None:  # noqa: ARG002
        """See `Reader.probe`."""
        with contextlib.suppress(ObjectNotFoundError):
            access.open_store(place).get(_NOT_THERE)

    def check_store(
        self,
        access: Access,
        table: ResolvedTable,
        place: Location,
    ) -> StoreReport:
        """See `Reader.check_store`."""
        return check_quickly(access.open_store(place), table.name.replace("/", "."))

    def may_write(
        self,
        access: Access,
        table: ResolvedTable,  # noqa: ARG002
        place: Location,
        uid: str,
    ) -> bool:
        """See `Reader.may_write`."""
        return check_write(access.open_store(place), uid)

    def check_list(self, access: Access, table: ResolvedTable, place: Location) -> None:  # noqa: ARG002
        """See `Reader.check_list`."""
        check_list(access.open_store(place))

    def check_deletion(
        self, access: Access, table: ResolvedTable, status: LakeTableStatus
    ) -> DeletionCheck:
        """See `Reader.check_deletion`."""
        store = access.open_store(table.location)
        return check_deletion(
            table, status, store, self._clock, lambda: self.observe(access, table, status)
        )

    def remove(self, access: Access, table: ResolvedTable, removal: Removal) -> RemovalStep:
        """See `Reader.remove`."""
        store = access.open_store(table.location)
        return self._removals.step(table, removal, store, access.may_write)


@contextlib.contextmanager
def _using(access: Access) -> Iterator[None]:
    """Within, this thread's look opens stores and catalogs with `access`."""
    token = _access.set(access)
    try:
        yield
    finally:
        _access.reset(token)


def _open_store(_: ResolvedTable, place: Location) -> ObjectStore:
    return _access.get().open_store(place)


@contextlib.contextmanager
def _reach(table: ResolvedTable, ingest: str) -> Iterator[Reach]:
    """The source of an ingest, with credentials where it names some."""
    named = {item.name for item in table.spec.ingest if item.source.credentials is not None}
    source = table.sources[ingest]
    with _access.get().reaching(source, has_credentials=ingest in named) as reach:
        yield reach


@contextlib.contextmanager
def _slot_of(place: ResolvedTable) -> Iterator[tuple[DeclaredSlot, Mapping[str, str], Connect]]:
    """The slot of a LakeSource, by the table in its place, and how it is reached."""
    ((ingest, source),) = place.sources.items()
    assert isinstance(source, DeclaredPostgres)
    with _reach(place, ingest) as reach:
        assert reach.connect is not None
        yield source.declared_slot, reach.variables, reach.connect


def _open_iceberg(
    table: ResolvedTable, open_store: Callable[[ResolvedTable, Location], ObjectStore], clock: Clock
) -> IcebergSource:
    """The metadata of an Iceberg table, its catalog with the credentials the table names."""
    access = _access.get()
    with access.asking_catalog():
        return open_source(
            table,
            open_store,
            clock,
            access.catalog,
            access.catalog_timeout_s,
            access.catalog_access,
        )
