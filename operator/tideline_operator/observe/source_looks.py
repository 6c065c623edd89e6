"""Looking at landing prefixes: what of them is listed, and what comes of it. Reads only.

Where files are named in the order in which they land, a look lists only names close to, or after,
those that were ingested: one request, however many files there are. The whole prefix is listed at
the ingest's `fullLookEvery`, and in the first look of a process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.ingest.operation.operation import Location
from tideline.ingest.sources.files.listing import ArrivedFile, list_arrived_after
from tideline.ingest.sources.files.plan import LOCAL_SETTLE_MS
from tideline.ingest.sources.resume import newest_of
from tideline.storage.object_store import ObjectStore
from tideline_operator.decide.observed import ObservedSource, ObservedTable
from tideline_operator.decide.triggers import look_after
from tideline_operator.observe.problems import problem_of
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable


class SourceLooks:
    """Remembers when each landing prefix was last listed as a whole."""

    def __init__(
        self, clock: Clock, open_store: Callable[[ResolvedTable, Location], ObjectStore]
    ) -> None:
        self._clock = clock
        self._open_store = open_store
        self._full_looks: dict[str, dict[tuple[str, Location], int]] = {}

    def forget(self, table: ResolvedTable) -> None:
        """Drop what is remembered of a table that is not observed any more."""
        self._full_looks.pop(table.name, None)

    def look(
        self, table: ResolvedTable, ingest: Ingest, found: ObservedTable | None
    ) -> ObservedSource:
        """List the landing prefix of an ingest; `found` is the table as it is now."""
        place, now_ms = table.landings[ingest.name], self._clock.now_ms()
        full_looks = self._full_looks.setdefault(table.name, {})
        after = look_after(ingest, found, full_looks.get((ingest.name, place)), now_ms)
        checkpoints = found.checkpoints if found is not None else {}
        known = newest_of(checkpoints, ingest.name, ingest.renamed_from or "")

        def is_known(file: ArrivedFile) -> bool:
            return known is not None and known.has_taken(file)

        try:
            store = self._open_store(table, place)
            root = store.local_path("")
            landing = list_arrived_after(store, ingest.source.format, after, is_known)
            if landing.is_whole:
                full_looks[ingest.name, place] = now_ms
            return ObservedSource(
                landing,
                settle_ms=LOCAL_SETTLE_MS if root is not None else 0,
                exists=root is None or Path(root).is_dir(),
            )
        except TidelineError as error:
            return ObservedSource(problem=problem_of(error))
