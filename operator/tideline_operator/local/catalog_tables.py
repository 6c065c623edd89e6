"""The tables of the LakeCatalogs that `tideline run` was given, looked for now and then.

A table is left to a LakeTable of its own in the same files, and to the LakeCatalog that was first.
While a catalog cannot be listed, the tables that it had stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tideline.errors import TidelineError
from tideline.wording import counted
from tideline_operator.decide.catalog_plan import plan_catalog, resource_name
from tideline_operator.local.table_looks import Known, Looks, Note
from tideline_operator.observe.observation import open_with_environment
from tideline_operator.observe.warehouse import list_warehouse
from tideline_operator.resources.resolved import ResolvedCatalog, ResolvedTable

_LEFT_SHOWN = 5


@dataclass(slots=True)
class _Known(Known):
    """What the last look at one catalog found, and when the next is due."""

    tables: tuple[ResolvedTable, ...] = ()


@dataclass(slots=True)
class CatalogTables(Looks[_Known]):
    """The tables of all catalogs, as of the last looks."""

    @property
    def tables(self) -> tuple[ResolvedTable, ...]:
        """The tables of the catalogs."""
        return tuple(table for known in self._known.values() for table in known.tables)

    def look(
        self, catalogs: Iterable[ResolvedCatalog], declared: Iterable[ResolvedTable], note: Note
    ) -> None:
        """Look at the catalogs that are due; `declared` are the tables with a LakeTable."""
        listed = {catalog.name: catalog for catalog in catalogs}
        self._keep(listed, _Known)
        others = list(declared)
        for name, known in self._known.items():
            if self._is_due(known):
                self._look_at(listed[name], known, tuple(others), note)
            others += known.tables

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
            self._failed(known, error)
            known.noted = _noted(known, note, catalog, (f"cannot be listed: {error}",))
            return
        self._succeeded(known, spec.every.ms)
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
