"""Tables at rest: a poll in which nothing has landed need not look at the table again.

A table rests when a look found no instant under way and no operation has run since. While it does,
a poll of its landing prefixes is one request for each of them; the table is taken to be as it was
seen, for ten seconds at the most: what other writers do to it is noticed then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideline.ingest.landing.continuation import newest_of
from tideline.ingest.landing.plan import plan_batch
from tideline.ingest.landing.taken_policy import TakenPolicy
from tideline_operator.decide.observed import ObservedLanding, ObservedTable
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

REST_MS = 10_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A table as it was declared and seen."""

    declared: ResolvedTable
    table: ObservedTable
    at_ms: int


class RestingTables:
    """Remembers tables at rest; for any number of threads, each with another table."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def note(self, declared: ResolvedTable, table: ObservedTable | None, now_ms: int) -> None:
        """A table was looked at, while no operation was under way; None where there is none."""
        if table is None or table.pending:
            self._seen.pop(declared.name, None)
        else:
            self._seen[declared.name] = _Seen(declared, replace(table, counts=None), now_ms)

    def forget(self, declared: ResolvedTable) -> None:
        """An operation is under way, or the table is not observed any more."""
        self._seen.pop(declared.name, None)

    def known(
        self, declared: ResolvedTable, status: LakeTableStatus, now_ms: int
    ) -> ObservedTable | None:
        """The table as it was seen; None where it has to be looked at."""
        seen = self._seen.get(declared.name)
        if seen is None or seen.declared != declared or now_ms >= seen.at_ms + REST_MS:
            return None
        for operation in status.operations:
            if operation.finished_at is None or operation.finished_at.ms >= seen.at_ms:
                return None
        return seen.table


def is_quiet(
    declared: ResolvedTable,
    table: ObservedTable,
    landings: Mapping[str, ObservedLanding],
    now_ms: int,
) -> bool:
    """Whether none of the landing prefixes that were looked at gives anything to do."""
    ingests = {ingest.name: ingest for ingest in declared.spec.ingest}
    return all(_is_quiet(ingests[name], table, seen, now_ms) for name, seen in landings.items())


def _is_quiet(ingest: Ingest, table: ObservedTable, seen: ObservedLanding, now_ms: int) -> bool:
    if seen.problem is not None:
        return False
    checkpoint = newest_of(table.checkpoints, ingest.name, ingest.renamed_from or "")
    batch = plan_batch(
        seen.landing, checkpoint, files_max=1, now_ms=now_ms, settle_ms=seen.settle_ms
    )
    clutters = ingest.source.taken is not TakenPolicy.KEEP and batch.remembered_files > 0
    return not (batch.files or batch.unsettled_files or clutters)
