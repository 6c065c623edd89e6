"""The tables of the LakeCatalogs that `tideline run` was given, looked for now and then.

A table is left to a LakeTable of its own in the same files, and to the LakeCatalog that was first.
While a catalog cannot be listed, the tables that it had stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.wording import counted
from tideline_operator.decide.catalog_plan import plan_catalog, resource_name
from tideline_operator.observe.observation import open_with_environment
from tideline_operator.observe.warehouse import list_warehouse
from tideline_operator.resources.resolved import ResolvedCatalog, ResolvedTable

RETRY_MS = 30_000
_LEFT_SHOWN = 5
Note = Callable[[str], None]


@dataclass(slots=True)
class _Known:
    """What the last look at one catalog found, and when the next is due."""

    tables: tuple[ResolvedTable, ...] = ()
    due_ms: int = 0
    noted: tuple[str, ...] = ()
    problem: TidelineError | None = None


@dataclass(slots=True)
class CatalogTables:
    """The tables of all catalogs, as of the last looks."""

    clock: Clock
    _known: dict[str, _Known] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[ResolvedTable, ...]:
        """The tables of the catalogs."""
        return tuple(table for known in self._known.values() for table in known.tables)

    @property
    def problems(self) -> tuple[TidelineError, ...]:
        """Why catalogs could not be listed."""
        return tuple(known.problem for known in self._known.values() if known.problem is not None)

    @property
    def due_ms(self) -> int | None:
        """When the next look is due; None without catalogs."""
        return min((known.due_ms for known in self._known.values()), default=None)

    def look(
        self, catalogs: Iterable[ResolvedCatalog], declared: Iterable[ResolvedTable], note: Note
    ) -> None:
        """Look at the catalogs that are due; `declared` are the tables with a LakeTable."""
        listed = {catalog.name: catalog for catalog in catalogs}
        self._known = {name: self._known.get(name, _Known()) for name in listed}
        others = list(declared)
        for name, known in self._known.items():
            if known.due_ms <= self.clock.now_ms():
                self._look_at(listed[name], known, tuple(others), note)
            others += known.tables

    def look_again(self) -> None:
        """Look at all of them the next time, because what is declared has changed."""
        for known in self._known.values():
            known.due_ms = 0

    def _look_at(
        self,
        catalog: ResolvedCatalog,
        known: _Known,
        others: tuple[ResolvedTable, ...],
        note: Note,
    ) -> None:
        spec = catalog.resource.spec
        try:
            plan = plan_catalog(spec, list_warehouse(catalog.place, open_with_environment))
        except TidelineError as error:
            known.problem, known.due_ms = error, self.clock.now_ms() + RETRY_MS
            known.noted = _noted(known, note, catalog, (f"cannot be listed: {error}",))
            return
        known.problem, known.due_ms = None, self.clock.now_ms() + spec.every.ms
        places = {table.address for table in others}
        taken = {table.name for table in others}
        tables: list[ResolvedTable] = []
        namespace = catalog.resource.metadata.namespace
        names = {name.partition("/")[2] for name in taken if name.startswith(f"{namespace}/")}
        for found in plan.wanted:
            table = catalog.table(resource_name(catalog.resource, found, names), found.parts)
            if table.address not in places:
                names.add(table.resource.metadata.name)
                tables.append(table)
        known.tables = tuple(tables)
        parts = [counted(plan.found, "table"), f"{len(tables):,} maintained"]
        if plan.excluded:
            parts.append(f"{plan.excluded:,} excluded")
        if len(tables) < len(plan.wanted):
            parts.append(f"{len(plan.wanted) - len(tables):,} left to others")
        left = tuple(f"{name} is left: {why}" for name, why in plan.left.items())
        lines = (", ".join(parts), *left[:_LEFT_SHOWN])
        if len(left) > _LEFT_SHOWN:
            lines += (f"{len(left) - _LEFT_SHOWN:,} more are left",)
        known.noted = _noted(known, note, catalog, lines)


def _noted(
    known: _Known, note: Note, catalog: ResolvedCatalog, lines: tuple[str, ...]
) -> tuple[str, ...]:
    """Say what has changed since the last look."""
    if lines != known.noted:
        for line in lines:
            note(f"LakeCatalog {catalog.name}: {line}")
    return lines
