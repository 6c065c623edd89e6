"""A slot that several tables share: its tables, and how far it may move. Values alone.

1. Each table has its position in its own commits, and reads only what is behind it.
2. The slot moves to the least position of all its tables. One that has no commit yet holds it where
   it is: the log of that table begins no earlier.
3. A table that can never continue, as it was dropped or left the publication, holds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.ingest.sources.postgres.look import Slot, describe_kept
from tideline.ingest.sources.postgres.position import Origin, PostgresPosition


@dataclass(frozen=True, slots=True)
class DeclaredSlot:
    """A slot and what reaches it, as `OfSlot` wants."""

    slot: str
    publication: str
    connection: str

    @property
    def uri(self) -> str:
        return f"postgres:{self.slot}"


@dataclass(frozen=True, slots=True, order=True)
class SlotTable:
    """A table of the server. `key` are the columns that its rows are known by. Where there is an
    `obstacle` it cannot be read."""

    schema: str
    name: str
    origin: Origin
    key: tuple[str, ...] = ()
    obstacle: str = ""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class SlotLook:
    """The tables of a server, by name, and the slot; None where it is not made yet."""

    tables: tuple[SlotTable, ...]
    slot: Slot | None


@dataclass(frozen=True, slots=True)
class Floor:
    """How far a slot may move; `holder` is the table that holds it there. `lsn` is None where the
    slot is to stay."""

    lsn: int | None
    holder: str


def floor_of(
    tables: Iterable[SlotTable], positions: Mapping[str, PostgresPosition | None]
) -> Floor | None:
    """How far the slot of these tables may move; None where no table says. `positions` are by the
    full name of the table: None without a commit."""
    least: Floor | None = None
    for table in tables:
        position = positions.get(table.full_name)
        if position is None or position.lsn is None:
            return Floor(None, table.full_name)
        if not position.origin.agrees_with(table.origin):
            if position.origin.system != table.origin.system:
                return Floor(None, table.full_name)
            continue
        if least is None or least.lsn is None or position.lsn < least.lsn:
            least = Floor(position.lsn, table.full_name)
    return least


def describe_held(name: str, slot: Slot | None, floor: Floor | None) -> str | None:
    """How much log the server keeps for a slot, where that is much, and for which table."""
    kept = None if slot is None else describe_kept(name, slot)
    return kept if kept is None or floor is None else f"{kept}, for {floor.holder}"
