"""The properties of an open table, as they were read last, and changing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tideline.clock import Clock
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.table.properties import load_table_config, update_table_properties
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.table.table_lock import HeldLock
from tideline.lock_timing import LockTiming
from tideline.storage.lock import Guard, TableLock, open_table_lock, unguarded
from tideline.storage.object_store import ObjectStore


class TableProperties:
    """`hoodie.properties` of one table; `load` reads them again."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        config: TableConfig,
        load: Callable[[ObjectStore], TableConfig] = load_table_config,
    ) -> None:
        self.store = store
        self.clock = clock
        self.config = config
        self.held_lock = HeldLock(clock)
        self._load = load

    @property
    def layout(self) -> TableLayout:
        """How the table lies on disk; everything that differs between table versions."""
        return self.config.layout

    def reload(self) -> TableConfig:
        """Read the properties again: another engine may have changed them, or upgraded the table.

        Raises as `load_table_config`.
        """
        self.config = self._load(self.store)
        return self.config

    def update(
        self,
        changes: Mapping[str, str | None],
        guard: Guard = unguarded,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Change properties (None removes one) under the table lock; `guard` says it was lost,
        `expected` are properties that nobody may have changed."""
        self.config = update_table_properties(
            self.store, changes, clock=self.clock, guard=guard, expected=expected
        )

    def set(self, changes: Mapping[str, str | None]) -> None:
        """Take the table lock and change properties; see `update`."""
        with self.lock().acquire():
            self.reload()
            self.update(changes)

    def lock(self, timing: LockTiming | None = None) -> TableLock:
        """The table's lock, not acquired yet, with the table's own timing unless given."""
        timing = timing or Settings(self.config.properties).lock_timing()
        return self.held_lock.of(open_table_lock(self.store, self.clock, timing), timing)
