"""What the controller remembers of each table between reconciliations, and the end of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tideline_operator.controller.blockers import Blockers
from tideline_operator.controller.table_source import Declared
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus


@dataclass(slots=True)
class TableSession:
    """Of one table; all of it may be lost. `status` and `declared` are with the version of the
    object that they were read from; `problems` counts reconciliations in a row that met one;
    `written_ms` is when its status was last written.
    """

    polled: dict[str, Timestamp] = field(default_factory=dict)
    status: tuple[str, LakeTableStatus] | None = None
    declared: tuple[object, Declared] | None = None
    resolved: ResolvedTable | None = None
    blockers: Blockers = field(default_factory=Blockers)
    problems: int = 0
    written_ms: int = 0


class TableSessions:
    """A session for each table; `forget_read` drops what the reader holds of one.

    Registries across tables, such as budgets and lines, register once how they let go of a table.
    """

    def __init__(self, forget_read: Callable[[ResolvedTable], None]) -> None:
        self._forget_read = forget_read
        self._sessions: dict[Key, TableSession] = {}
        self._ends: tuple[Callable[[Key], object], ...] = ()

    def on_end(self, *ends: Callable[[Key], object]) -> None:
        """Called with the key of a table that was deleted."""
        self._ends += ends

    def of(self, key: Key) -> TableSession:
        """That of the table, a new one where there is none."""
        return self._sessions.setdefault(key, TableSession())

    def resolved(self, key: Key) -> ResolvedTable | None:
        """The table as it was last resolved; its stores and Secrets may be deleted by now."""
        session = self._sessions.get(key)
        return None if session is None else session.resolved

    def end(self, key: Key) -> None:
        """The table was deleted."""
        resolved = self.resolved(key)
        if resolved is not None:
            self._forget_read(resolved)
        for end in self._ends:
            end(key)
        self._sessions.pop(key, None)
