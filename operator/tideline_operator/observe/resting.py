"""Tables at rest: a poll in which nothing has landed need not look at the table again.

A table rests when a look found no instant under way and no operation has run since. While it does,
a poll of its landing prefixes is one request for each of them; the table is taken to be as it was
seen, for ten seconds at first, and for as long as it has not changed later on, five minutes at the
most: what other writers do to it is noticed then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideline.ingest.sources.checkpoint import newest_of
from tideline.ingest.sources.resume import Resume
from tideline_operator.decide.observed import ObservedSource, ObservedTable
from tideline_operator.decide.planner import ahead_of
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

REST_MS = 10_000
REST_MS_MAX = 300_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A table as it was declared and seen at `at_ms`; it has been that way since `since_ms`."""

    declared: ResolvedTable
    table: ObservedTable
    at_ms: int
    since_ms: int

    def is_valid(self, now_ms: int) -> bool:
        """Whether it rests still."""
        unchanged_ms = self.at_ms - self.since_ms
        return now_ms < self.at_ms + min(REST_MS_MAX, max(REST_MS, unchanged_ms))

    def is_of(self, declared: ResolvedTable, table: ObservedTable) -> bool:
        """Whether a later look saw the same."""
        now, before = table.history, self.table.history
        is_same = now.timeline == before.timeline and now.properties == before.properties
        return is_same and self.declared == declared


class RestingTables:
    """Remembers tables at rest; for any number of threads, each with another table."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def take(self, declared: ResolvedTable) -> Seen | None:
        """How a table was seen last, which does not count any more: it is looked at."""
        return self._seen.pop(declared.name, None)

    def note(
        self,
        declared: ResolvedTable,
        table: ObservedTable | None,
        now_ms: int,
        before: Seen | None,
    ) -> None:
        """A table was looked at, while no operation was under way; None where there is none."""
        if table is None or table.pending:
            return
        is_same = before is not None and before.is_of(declared, table)
        since_ms = before.since_ms if before is not None and is_same else now_ms
        seen = Seen(declared, replace(table, counts=None), now_ms, since_ms)
        self._seen[declared.name] = seen

    def forget(self, declared: ResolvedTable) -> None:
        """The table is not observed any more."""
        self._seen.pop(declared.name, None)

    def known(
        self, declared: ResolvedTable, status: LakeTableStatus, now_ms: int
    ) -> ObservedTable | None:
        """The table as it was seen; None where it has to be looked at."""
        seen = self._seen.get(declared.name)
        if seen is None or seen.declared != declared or not seen.is_valid(now_ms):
            return None
        for operation in status.operations:
            if operation.finished_at is None or operation.finished_at.ms >= seen.at_ms:
                return None
        return seen.table


def is_quiet(
    declared: ResolvedTable,
    table: ObservedTable,
    sources: Mapping[str, ObservedSource],
    now_ms: int,
) -> bool:
    """Whether none of the sources that were looked at gives anything to do."""
    ingests = {ingest.name: ingest for ingest in declared.spec.ingest}
    return all(
        _is_quiet(declared, ingests[name], table, seen, now_ms) for name, seen in sources.items()
    )


def _is_quiet(
    declared: ResolvedTable, ingest: Ingest, table: ObservedTable, seen: ObservedSource, now_ms: int
) -> bool:
    if seen.available is None:
        return False
    checkpoint = newest_of(table.checkpoints, ingest.name, ingest.renamed_from or "")
    ahead = ahead_of(seen.available, Resume(checkpoint), parts_max=1, now_ms=now_ms)
    return ahead.is_quiet(declared.sources[ingest.name])
