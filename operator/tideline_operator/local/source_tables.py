"""The tables of the LakeSources that `tideline run` was given, looked for now and then, and their
slots.

1. A look lists the tables of the server. One that came since becomes a table of the lake; one that
   is gone is named, and its lake table stays.
2. While a server cannot be listed, the tables that it had stay.
3. Once all tables were looked at, the slot moves to the least position that all of them have. Which
   tables these are is asked of the server again at that time: one that came meanwhile holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tideline.errors import TidelineError
from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.postgres.position import PostgresPosition
from tideline.ingest.sources.postgres.server import advance_slot
from tideline.ingest.sources.postgres.shared_slot import (
    SlotLook,
    SlotTable,
    describe_held,
    floor_of,
)
from tideline.ingest.sources.postgres.slot_tables import look_at_slot
from tideline.wording import counted
from tideline_operator.decide.source_plan import SourcePlan, plan_source, position_of, table_name
from tideline_operator.local.table_looks import RETRY_MS, Known, Looks, Note
from tideline_operator.resources.resolved import ResolvedSource, ResolvedTable

_MOVE_EVERY_MS = 1_000
_SHOWN = 5


@dataclass(slots=True)
class _Known(Known):
    """What the last look at one server found, and when the next is due. `tables` are by the name of
    the table on the server; others have those in `theirs`."""

    tables: dict[str, ResolvedTable] = field(default_factory=dict)
    theirs: frozenset[str] = frozenset()
    move_ms: int = 0
    moved_by: dict[str, PostgresPosition | None] = field(default_factory=dict)


@dataclass(slots=True)
class SourceTables(Looks[_Known]):
    """The tables of all LakeSources, as of the last looks."""

    _positions: dict[str, PostgresPosition | None] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[ResolvedTable, ...]:
        """The tables of the LakeSources."""
        return tuple(table for known in self._known.values() for table in known.tables.values())

    def look(
        self, sources: Iterable[ResolvedSource], declared: Iterable[ResolvedTable], note: Note
    ) -> None:
        """Look at the servers that are due; `declared` are all other tables."""
        listed = {source.name: source for source in sources}
        self._keep(listed, _Known)
        others = tuple(declared)
        for name, known in self._known.items():
            if self._is_due(known):
                self._look_at(listed[name], known, others, note)

    def note_checkpoints(
        self, table: ResolvedTable, checkpoints: Mapping[str, Checkpoint] | None
    ) -> None:
        """How far a table has read, as it was just seen; None where there is no table."""
        self._positions[table.name] = position_of(checkpoints or {})

    def move_slots(
        self, sources: Iterable[ResolvedSource], note: Note, *, is_idle: bool = True
    ) -> None:
        """Let servers remove the log that all tables have; now and then while there is work."""
        for source in sources:
            known, now_ms = self._known.get(source.name), self.clock.now_ms()
            if known is None or not known.tables or (now_ms < known.move_ms and not is_idle):
                continue
            positions = self._positions_of(known)
            if positions == known.moved_by:
                continue
            try:
                self._move(source, known, positions)
                known.moved_by, known.move_ms = positions, now_ms + _MOVE_EVERY_MS
            except TidelineError as error:
                known.move_ms = now_ms + RETRY_MS
                note(f"LakeSource {source.name}: the slot does not move: {error}")

    def _positions_of(self, known: _Known) -> dict[str, PostgresPosition | None]:
        return {name: self._positions.get(table.name) for name, table in known.tables.items()}

    def _move(
        self,
        source: ResolvedSource,
        known: _Known,
        positions: Mapping[str, PostgresPosition | None],
    ) -> None:
        slot = source.slot
        floor = floor_of(_holding(source, known, look_at_slot(slot)), positions)
        if floor is not None and floor.lsn is not None:
            advance_slot(slot, floor.lsn)

    def _look_at(
        self,
        source: ResolvedSource,
        known: _Known,
        others: tuple[ResolvedTable, ...],
        note: Note,
    ) -> None:
        spec = source.resource.spec
        try:
            look = look_at_slot(source.slot)
            plan = plan_source(spec.postgres, look.tables)
            gone = self._take(source, known, plan, look, others)
        except TidelineError as error:
            self._failed(known, error)
            lines: tuple[str, ...] = (f"its tables cannot be listed: {error}",)
            known.noted = _noted(known, note, source, lines)
            return
        self._succeeded(known, spec.every.ms)
        for name, table in gone.items():
            note(
                f"LakeSource {source.name}: {name} is not on the server any more: its table in "
                f"{table.location.uri} stays as it is"
            )
        lines = (f"{counted(len(known.tables), 'table')}", *_left(plan, known))
        floor = floor_of(_holding(source, known, look), self._positions_of(known))
        held = describe_held(spec.postgres.slot, look.slot, floor)
        lines += () if held is None else (held,)
        known.noted = _noted(known, note, source, lines)

    def _take(
        self,
        source: ResolvedSource,
        known: _Known,
        plan: SourcePlan,
        look: SlotLook,
        others: tuple[ResolvedTable, ...],
    ) -> dict[str, ResolvedTable]:
        """Make LakeTables of those that are planned; those that are gone from the server."""
        places = {table.address for table in others}
        names = {table.name for table in others} | {
            table.name for owner in self._known.values() for table in owner.tables.values()
        }
        tables: dict[str, ResolvedTable] = {}
        theirs = set()
        for found in plan.wanted:
            before = known.tables.get(found.full_name)
            name = "" if before is None else before.resource.metadata.name
            if not name:
                taken = {item.partition("/")[2] for item in names}
                name = table_name(source.resource, found, taken)
            table = source.table(name, (found.schema, found.name), found.key)
            if table.address in places:
                theirs.add(found.full_name)
                continue
            names.add(table.name)
            tables[found.full_name] = table
        listed = {found.full_name for found in look.tables}
        gone = {}
        for full_name, table in known.tables.items():
            if full_name in plan.left:
                # It says so when it is looked at, and holds the slot.
                tables[full_name] = table
            elif full_name not in listed:
                gone[full_name] = table
        known.tables, known.theirs = tables, frozenset(theirs)
        return gone


def _holding(source: ResolvedSource, known: _Known, look: SlotLook) -> list[SlotTable]:
    """The tables that the slot is for."""
    wanted = {
        item.full_name for item in plan_source(source.resource.spec.postgres, look.tables).wanted
    }
    wanted = (wanted | known.tables.keys()) - known.theirs
    return [item for item in look.tables if item.full_name in wanted]


def _left(plan: SourcePlan, known: _Known) -> Iterator[str]:
    reasons = {**plan.left, **dict.fromkeys(known.theirs, "a LakeTable has its location")}
    for name, why in sorted(reasons.items())[:_SHOWN]:
        yield f"{name} is left: {why}"
    if len(reasons) > _SHOWN:
        yield f"{len(reasons) - _SHOWN:,} more are left"


def _noted(
    known: _Known, note: Note, source: ResolvedSource, lines: tuple[str, ...]
) -> tuple[str, ...]:
    """Say what has changed since the last look."""
    for line in lines:
        if line not in known.noted:
            note(f"LakeSource {source.name}: {line}")
    return lines
