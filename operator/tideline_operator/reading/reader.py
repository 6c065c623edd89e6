"""What the controller has others read for it: all that touches a tenant's store, catalog or table.

Values in, values out. `TableReading` does it in this process, `ReaderProcesses` in processes of
their own, without the API token, with limits on memory and time.
"""

from __future__ import annotations

from typing import Protocol

from tideline.iceberg.table.found_table import FoundTable
from tideline.ingest.location import Location
from tideline.ingest.sources.postgres.shared_slot import SlotLook
from tideline.storage.probe.report import StoreReport
from tideline_operator.decide.observed import Observed
from tideline_operator.reading.access import Access
from tideline_operator.reading.deleted_table import DeletionCheck, Removal, RemovalStep
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus


class Reader(Protocol):
    """For any number of threads, each with another table. Where it says nothing else, errors are
    those of stores and tables, and ReadingFailedError."""

    def observe(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
        *,
        running: frozenset[str] = frozenset(),
    ) -> Observed:
        """Look at a table. Raises no error of a store or a table: it is a problem of the look."""

    def forget(self, table: ResolvedTable) -> None:
        """Drop what is remembered of a table that is not observed any more."""

    def list_place(self, access: Access, place: ResolvedTable) -> tuple[FoundTable, ...]:
        """The tables at the place of a LakeCatalog."""

    def look_at_slot(self, access: Access, place: ResolvedTable) -> SlotLook:
        """The tables that the server of a LakeSource has, and its slot."""

    def advance_slot(self, access: Access, place: ResolvedTable, lsn: int) -> bool:
        """Let the server of a LakeSource remove the log up to `lsn`; False where it may already, or
        where somebody reads the slot."""

    def probe(self, access: Access, table: ResolvedTable, place: Location) -> None:
        """One small read, which shows whether the bucket of a place can be read. Raises if not."""

    def check_store(self, access: Access, table: ResolvedTable, place: Location) -> StoreReport:
        """Check what the bucket of a place promises, with a few small objects."""

    def may_write(self, access: Access, table: ResolvedTable, place: Location, uid: str) -> bool:
        """Whether the store lets the table's credentials create and delete an object at a place;
        `uid` is that of the resource. Raises when the store does not say."""

    def check_list(self, access: Access, table: ResolvedTable, place: Location) -> None:
        """Raises where the table's credentials may not list a place."""

    def check_deletion(
        self,
        access: Access,
        table: ResolvedTable,
        status: LakeTableStatus,
    ) -> DeletionCheck:
        """What is at the location of a table that is to be deleted, and whether it may be."""

    def remove(self, access: Access, table: ResolvedTable, removal: Removal) -> RemovalStep:
        """Delete the files of a table, as far as that is possible in one step."""
