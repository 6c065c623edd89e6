"""Looking at sources: how much of them is looked at, and what comes of it. Reads only.

Where files are named in the order in which they land, a look lists only names close to, or after,
those that were ingested: one request, however many files there are. The whole prefix is listed at
the ingest's `fullLookEvery`, and in the first look of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.ingest.location import Location
from tideline.ingest.sources.checkpoint import newest_of
from tideline.storage.object_store import ObjectStore
from tideline_operator.decide.observed import ObservedSource, ObservedTable
from tideline_operator.decide.triggers import look_after
from tideline_operator.observe.problems import problem_of
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable


class SourceLooks:
    """Remembers when each source was last looked at as a whole."""

    def __init__(
        self, clock: Clock, open_store: Callable[[ResolvedTable, Location], ObjectStore]
    ) -> None:
        self._clock = clock
        self._open_store = open_store
        self._full_looks: dict[str, dict[tuple[str, Hashable], int]] = {}

    def forget(self, table: ResolvedTable) -> None:
        """Drop what is remembered of a table that is not observed any more."""
        self._full_looks.pop(table.name, None)

    def look(
        self, table: ResolvedTable, ingest: Ingest, found: ObservedTable | None
    ) -> ObservedSource:
        """Look at the source of an ingest; `found` is the table as it is now."""
        source, now_ms = table.sources[ingest.name], self._clock.now_ms()
        full_looks = self._full_looks.setdefault(table.name, {})
        start = look_after(ingest, found, full_looks.get((ingest.name, source.places)), now_ms)
        checkpoints = found.checkpoints if found is not None else {}
        known = newest_of(checkpoints, ingest.name, ingest.renamed_from or "")
        try:
            available = source.positions(
                lambda place: self._open_store(table, place),
                None if known is None else known.position,
                start,
            )
        except TidelineError as error:
            return ObservedSource(problem=problem_of(error))
        if available.is_whole:
            full_looks[ingest.name, source.places] = now_ms
        return ObservedSource(available)
