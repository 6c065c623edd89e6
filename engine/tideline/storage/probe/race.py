"""Racing one store: several callers, several connections, one moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from tideline.errors import StorageUnavailableError
from tideline.storage.object_store import ObjectStore, Written

_T = TypeVar("_T")
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look. `keys` and `rounds` multiply to the races of a kind; `page_objects` is how
    many objects the longest listing has; `counting_s` is when the counter stops.
    """

    racers: int
    keys: int
    rounds: int
    increments: int
    page_objects: int
    counting_s: float


QUICK = Effort(racers=4, keys=2, rounds=1, increments=1, page_objects=0, counting_s=1.0)
QUICK_AT_A_SERVER = Effort(8, keys=2, rounds=2, increments=1, page_objects=0, counting_s=5.0)
"""Finds servers that write without a lock, as VersityGW 1.7, where `QUICK` finds each second."""
THOROUGH = Effort(racers=8, keys=4, rounds=6, increments=4, page_objects=1005, counting_s=20.0)


@dataclass(frozen=True, slots=True)
class Arena:
    """Where a check works: `stores` are connections to one place, dealt out to the racers in turn;
    `folder` is a directory of its own there.
    """

    stores: tuple[ObjectStore, ...]
    folder: str
    token: str
    effort: Effort
    paths: set[str] = field(default_factory=set)
    """Every path that was handed out, to be removed regardless of what a listing shows."""
    notes: list[str] = field(default_factory=list)
    """What else is to be said, in the order in which it was seen."""

    @property
    def store(self) -> ObjectStore:
        return self.stores[0]

    def path(self, name: str) -> str:
        path = f"{self.folder}/{name}"
        self.paths.add(path)
        return path

    def race(
        self, attempt: Callable[[int, ObjectStore], _T]
    ) -> tuple[_T | StorageUnavailableError, ...]:
        """What each racer got; an attempt whose outcome is unknown is its StorageUnavailableError.

        Raises the first StorageUnavailableError when no racer got an answer.
        """
        start = threading.Barrier(self.effort.racers)

        def run(number: int) -> _T | StorageUnavailableError:
            start.wait(_START_TIMEOUT_S)
            try:
                return attempt(number, self.stores[number % len(self.stores)])
            except StorageUnavailableError as unavailable:
                return unavailable

        with ThreadPoolExecutor(self.effort.racers) as threads:
            results = tuple(threads.map(run, range(self.effort.racers)))
        if all(isinstance(result, StorageUnavailableError) for result in results):
            raise next(result for result in results if isinstance(result, StorageUnavailableError))
        return results

    def in_parallel(self, action: Callable[[int], object], count: int) -> None:
        """`action(0)` ... `action(count - 1)`, as many at once as there are racers."""
        with ThreadPoolExecutor(self.effort.racers) as threads:
            for _ in threads.map(action, range(count)):
                pass


def check_race(
    arena: Arena, path: str, bodies: Sequence[bytes], results: Sequence[object], *, what: str
) -> str | None:
    """What is wrong with a race in which racer i wrote `bodies[i]`, or None.

    Exactly one may have won, and every connection shows its body. Where no racer knows of having
    won, a reply was lost: then the body is that of one of the racers.
    """
    winners = [number for number, result in enumerate(results) if isinstance(result, Written)]
    if len(winners) > 1:
        return f"{len(winners)} of {len(results)} concurrent requests {what} succeeded"
    shown = {store.get(path) for store in arena.stores}
    if len(shown) > 1:
        return f"its endpoints show {len(shown)} different bodies after a race {what}"
    allowed = {bodies[number] for number in winners} or set(bodies)
    if not shown <= allowed:
        if winners:
            return f"a request {what} was acknowledged and is not what the object holds"
        return f"all of {len(results)} concurrent requests {what} were refused"
    return None
