"""What looks for tables that others declare, now and then, have in common: catalogs and sources of
`tideline run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tideline.clock import Clock
from tideline.errors import TidelineError

RETRY_MS = 30_000
Note = Callable[[str], None]


@dataclass(slots=True)
class Known:
    """What the last look at one of them said, why it failed, and when the next is due."""

    due_ms: int = 0
    noted: tuple[str, ...] = ()
    problem: TidelineError | None = None


_Known = TypeVar("_Known", bound=Known)


@dataclass(slots=True)
class Looks(Generic[_Known]):
    """What is known of each, by name."""

    clock: Clock
    _known: dict[str, _Known] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[TidelineError, ...]:
        """Why some could not be listed."""
        return tuple(known.problem for known in self._known.values() if known.problem is not None)

    @property
    def due_ms(self) -> int | None:
        """When the next look is due; None where there is nothing to look at."""
        return min((known.due_ms for known in self._known.values()), default=None)

    def look_again(self) -> None:
        """Look at all of them the next time, because what is declared has changed."""
        for known in self._known.values():
            known.due_ms = 0

    def _keep(self, names: Iterable[str], new: Callable[[], _Known]) -> None:
        """These are declared, and no others."""
        self._known = {name: self._known.get(name) or new() for name in names}

    def _is_due(self, known: _Known) -> bool:
        return known.due_ms <= self.clock.now_ms()

    def _failed(self, known: _Known, error: TidelineError) -> None:
        known.problem, known.due_ms = error, self.clock.now_ms() + RETRY_MS

    def _succeeded(self, known: _Known, every_ms: int) -> None:
        known.problem, known.due_ms = None, self.clock.now_ms() + every_ms
