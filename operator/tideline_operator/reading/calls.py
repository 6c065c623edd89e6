"""Calls of a `Reader` as values, their answers and errors: what goes between the processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tideline.errors import (
    ConfigError,
    ConflictError,
    CorruptTableError,
    InvalidDataError,
    ObjectNotFoundError,
    StorageUnavailableError,
    TableNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.table.found_table import FoundTable
from tideline.ingest.location import Location
from tideline.ingest.sources.postgres.shared_slot import SlotLook
from tideline.storage.object_store import UnsupportedRequestError
from tideline.storage.probe.report import StoreReport
from tideline.storage.refusals import AccessDeniedError, MissingBucketError
from tideline_operator.decide.observed import Observed
from tideline_operator.reading.access import Access, HandedAccess
from tideline_operator.reading.deleted_table import DeletionCheck, Removal, RemovalStep
from tideline_operator.reading.reader import Reader
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus


class ReadingFailedError(TidelineError):
    """A table cannot be read within the limits of its process, or its content ends the process."""


class ReaderUnavailableError(StorageUnavailableError):
    """There is no process now that reads tables: a retry may help."""


@dataclass(frozen=True, slots=True)
class Observe:
    table: ResolvedTable
    status: LakeTableStatus
    running: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forget:
    table: ResolvedTable


@dataclass(frozen=True, slots=True)
class ListPlace:
    table: ResolvedTable


@dataclass(frozen=True, slots=True)
class LookAtSlot:
    table: ResolvedTable


@dataclass(frozen=True, slots=True)
class AdvanceSlot:
    table: ResolvedTable
    lsn: int


@dataclass(frozen=True, slots=True)
class ProbeStore:
    table: ResolvedTable
    place: Location


@dataclass(frozen=True, slots=True)
class CheckStore:
    table: ResolvedTable
    place: Location


@dataclass(frozen=True, slots=True)
class MayWrite:
    table: ResolvedTable
    place: Location
    uid: str


@dataclass(frozen=True, slots=True)
class CheckList:
    table: ResolvedTable
    place: Location


@dataclass(frozen=True, slots=True)
class CheckDeletion:
    table: ResolvedTable
    status: LakeTableStatus


@dataclass(frozen=True, slots=True)
class Remove:
    table: ResolvedTable
    removal: Removal


Call = (
    Observe
    | Forget
    | ListPlace
    | LookAtSlot
    | AdvanceSlot
    | ProbeStore
    | CheckStore
    | MayWrite
    | CheckList
    | CheckDeletion
    | Remove
)

ANSWERS: Final[dict[type, Any]] = {
    Observe: Observed,
    Forget: type(None),
    ListPlace: tuple[FoundTable, ...],
    LookAtSlot: SlotLook,
    AdvanceSlot: bool,
    ProbeStore: type(None),
    CheckStore: StoreReport,
    MayWrite: bool,
    CheckList: type(None),
    CheckDeletion: DeletionCheck,
    Remove: RemovalStep,
}
"""What each call is answered with."""

Failure = (
    ReaderUnavailableError
    | ReadingFailedError
    | MissingBucketError
    | AccessDeniedError
    | UnsupportedRequestError
    | ConfigError
    | UnsupportedTableError
    | CorruptTableError
    | TableNotFoundError
    | ObjectNotFoundError
    | InvalidDataError
    | ConflictError
    | StorageUnavailableError
    | TidelineError
)
"""Errors that a call may end with; the first that one is an instance of stands for it."""


@dataclass(frozen=True, slots=True, repr=False)
class Handed:
    """A call with what it needs. `gates` are `STORE_GATE`, `CATALOG_GATE` and `SOURCE_GATE`, as far
    as there are any to be asked."""

    call: Call
    access: HandedAccess
    gates: tuple[str, ...]


STORE_GATE: Final = "store"
CATALOG_GATE: Final = "catalog"
SOURCE_GATE: Final = "source"


def perform(reader: Reader, access: Access, call: Call) -> object:
    """What the call is answered with. Raises what it raises."""
    match call:
        case Observe(table, status, running):
            return reader.observe(access, table, status, running=running)
        case Forget(table):
            reader.forget(table)
        case ListPlace(table):
            return reader.list_place(access, table)
        case LookAtSlot(table):
            return reader.look_at_slot(access, table)
        case AdvanceSlot(table, lsn):
            return reader.advance_slot(access, table, lsn)
        case ProbeStore(table, place):
            reader.probe(access, table, place)
        case CheckStore(table, place):
            return reader.check_store(access, table, place)
        case MayWrite(table, place, uid):
            return reader.may_write(access, table, place, uid)
        case CheckList(table, place):
            reader.check_list(access, table, place)
        case CheckDeletion(table, status):
            return reader.check_deletion(access, table, status)
        case Remove(table, removal):
            return reader.remove(access, table, removal)
    return None
