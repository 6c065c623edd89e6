"""Looking at sources: how much of them is looked at, and what comes of it. Reads only.

Where files are named in the order in which they land, a look lists only names close to, or after,
those that were ingested: one request, however many files there are. The whole prefix is listed at
the ingest's `fullLookEvery`, and in the first look of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.ingest.location import Location
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Declared, Reach
from tideline.storage.object_store import ObjectStore
from tideline_operator.decide.observed import ObservedSource, Problem
from tideline_operator.decide.planner import OBSERVE_RETRY_MS
from tideline_operator.decide.triggers import look_after
from tideline_operator.observe.problems import problem_of
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable

ReachOf = Callable[[ResolvedTable, str], AbstractContextManager[Reach]]
"""How the source of an ingest is reached, for the time of one look. Raises TidelineError."""


def with_environment(open_store: Callable[[ResolvedTable, Location], ObjectStore]) -> ReachOf:
    """Sources with the environment's credentials, their places as `open_store` opens them."""
    return lambda table, _: nullcontext(own_reach(partial(open_store, table)))


AGE_EVERY_MS = 10_000
"""How often a look asks for the age of what waits."""
_SLOW_MS = 1_000
"""A look that fails so late takes time from other tables: it is not repeated at once."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a look at a source failed with, and when to look again."""

    source: Declared
    problem: Problem
    again_ms: int


class SourceLooks:
    """Remembers when each source was last looked at as a whole, asked for ages, out of reach."""

    def __init__(self, clock: Clock, reach_of: ReachOf) -> None:
        self._clock = clock
        self._reach_of = reach_of
        self._full_looks: dict[str, dict[tuple[str, Hashable], int]] = {}
        self._age_looks: dict[str, dict[str, int]] = {}
        self._failed: dict[str, dict[str, _Failed]] = {}

    def forget(self, table: ResolvedTable) -> None:
        """Drop what is remembered of a table that is not observed any more."""
        self._full_looks.pop(table.name, None)
        self._age_looks.pop(table.name, None)
        self._failed.pop(table.name, None)

    def look(
        self, table: ResolvedTable, ingest: Ingest, checkpoints: Mapping[str, Checkpoint]
    ) -> ObservedSource:
        """Look at the source of an ingest; `checkpoints` are those of the table now."""
        source, now_ms = table.sources[ingest.name], self._clock.now_ms()
        failures = self._failed.setdefault(table.name, {})
        failed = failures.get(ingest.name)
        if failed is not None and failed.source == source and now_ms < failed.again_ms:
            return ObservedSource(problem=failed.problem)
        full_looks = self._full_looks.setdefault(table.name, {})
        start = look_after(
            ingest, checkpoints, full_looks.get((ingest.name, source.places)), now_ms
        )
        known = newest_of(checkpoints, ingest.name, ingest.renamed_from or "")
        position = None if known is None else known.position
        try:
            with self._reach_of(table, ingest.name) as reach:
                asks_age = self._asks_age(table, ingest, now_ms)
                available = source.positions(replace(reach, asks_age=asks_age), position, start)
        except TidelineError as error:
            problem, ended_ms = problem_of(error), self._clock.now_ms()
            if problem.is_transient and ended_ms - now_ms >= _SLOW_MS:
                failures[ingest.name] = _Failed(source, problem, ended_ms + OBSERVE_RETRY_MS)
            return ObservedSource(problem=problem)
        failures.pop(ingest.name, None)
        if available.is_whole:
            full_looks[ingest.name, source.places] = now_ms
        return ObservedSource(available)

    def _asks_age(self, table: ResolvedTable, ingest: Ingest, now_ms: int) -> bool:
        asked = self._age_looks.setdefault(table.name, {})
        if ingest.name in asked and now_ms < asked[ingest.name] + AGE_EVERY_MS:
            return False
        asked[ingest.name] = now_ms
        return True
