"""The resource files a reconciler works from, read again when they change, and their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tideline.clock import Clock, SystemClock
from tideline.errors import TidelineError
from tideline.ingest.sources.source import Available
from tideline.storage.egress.client_files import ClientFiles
from tideline_operator.local.catalog_tables import CatalogTables
from tideline_operator.local.source_tables import SourceTables
from tideline_operator.report.held_up import held_up_words
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.loading import ResourceSet, load_resources
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.store_families import FAMILIES


class TableFiles:
    """The tables that a set of paths declares, with those of its catalogs and sources; the last
    valid state is kept."""

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        ca_bundle: str | None,
        client_files: ClientFiles | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._ca_bundle = ca_bundle
        self._client_files = client_files
        self._stamp = self._read_stamp()
        self._noted: set[tuple[str, str, str]] = set()
        self._clock = clock or SystemClock()
        self.resources: ResourceSet = self._loaded()
        self.catalogs = CatalogTables(self._clock)
        self.sources = SourceTables(self._clock)

    @property
    def tables(self) -> tuple[ResolvedTable, ...]:
        return (*self.resources.tables, *self.catalogs.tables, *self.sources.tables)

    @property
    def problems(self) -> tuple[TidelineError, ...]:
        """Why catalogs and sources could not be listed."""
        return (*self.catalogs.problems, *self.sources.problems)

    @property
    def due_ms(self) -> int | None:
        """When the next look for tables is due; None where there is none."""
        due = (self.catalogs.due_ms, self.sources.due_ms)
        return min((at_ms for at_ms in due if at_ms is not None), default=None)

    def look_for_tables(self, note: Callable[[str], None]) -> None:
        """Look at the catalogs and sources that are due; `tables` are then those they have."""
        self.catalogs.look(self.resources.catalogs, self.resources.tables, note)
        others = (*self.resources.tables, *self.catalogs.tables)
        self.sources.look(self.resources.sources, others, note)

    def move_slots(self, note: Callable[[str], None], *, is_idle: bool) -> None:
        """Let the slots of sources move to what all their tables have."""
        self.sources.move_slots(self.resources.sources, note, is_idle=is_idle)

    def reload_if_changed(self, hold: Callable[[Iterable[ResolvedTable]], None]) -> bool:
        """Read the files again if any changed, and `hold` what they declare.

        Raises ConfigError when they are not valid, or what `hold` raises; once for each change.
        """
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        resources = self._loaded()
        hold(resources.tables)
        self.resources = resources
        self.catalogs.look_again()
        self.sources.look_again()
        return True

    def _loaded(self) -> ResourceSet:
        return load_resources(
            self._paths, ca_bundle=self._ca_bundle, client_files=self._client_files
        )

    def notes(self, environment_names: Iterable[str]) -> list[str]:
        """What users should know before the start."""
        present = set(environment_names)
        notes = [f"skipped {item}: not a resource of Tideline" for item in self.resources.skipped]
        for store in self.resources.stores:
            notes += _store_notes(store, present)
        return notes

    def note_source(
        self, table: ResolvedTable, name: str, available: Available, note: Callable[[str], None]
    ) -> None:
        """Note once, and again when it changes, which files are ignored for their name, what waits
        in the quarantine, and what cannot be read."""
        held_up = held_up_words(available, self._clock.now_ms())
        for text in (available.describe_others(), available.set_aside.words, held_up or None):
            if text is not None and (table.name, name, text) not in self._noted:
                self._noted.add((table.name, name, text))
                note(f"{table.name}  {name}: {text}")

    def _read_stamp(self) -> tuple[tuple[str, int, int], ...]:
        files = []
        for path in self._paths:
            for file in sorted(path.iterdir()) if path.is_dir() else (path,):
                if file.is_file():
                    status = file.stat()
                    files.append((str(file), status.st_mtime_ns, status.st_size))
        return tuple(files)


def _store_notes(store: LakeStore, present: set[str]) -> list[str]:
    if store.spec.credentials is None:
        return []
    family = FAMILIES[store.spec.scheme]
    missing = [name for name in family.required if name not in present]
    text = (
        f"LakeStore {store.metadata}: here credentials come from the environment "
        f"({family.variables}), not from Secret {store.spec.credentials.secret_name}"
    )
    return [f"{text}; missing: {', '.join(missing)}" if missing else text]
