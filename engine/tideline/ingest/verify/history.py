"""The commits that took a source in, as far as the table still knows them, and those whose rows are
not of what a source has lost.

A row that only the table has may be of a record that is gone. It cannot, where its commit took a
range in that is still there whole, or is not of an ingest that is compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from tideline.hudi.timeline.carried_value import carried_key
from tideline.ingest.execute.ingest_table import FILES_KEY
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.checkpoint import INGEST_KEY, Checkpoint
from tideline.ingest.sources.replay import TakenIn
from tideline.ingest.sources.source import Position
from tideline.ingest.verify.table_state import TableState

_WAITING_MAX = 200


def commits_of(state: TableState, work: IngestRange, newest: Checkpoint) -> Iterator[TakenIn]:
    """Those of an ingest up to a checkpoint, the newest first. The archive is read when those that
    are active have been given."""
    last = newest.generation + 1
    # Files of an archive overlap in time.
    waiting: dict[int, TakenIn] = {}
    for time, extra in chain(state.commits(), state.archived_commits()):
        taken = _taken_in(time, extra, work, state.names_kept_max)
        if taken is None or taken.generation >= last:
            continue
        waiting[taken.generation] = taken
        while waiting and (last - 1 in waiting or len(waiting) > _WAITING_MAX):
            last = max(waiting)
            yield waiting.pop(last)
    for generation in sorted(waiting, reverse=True):
        yield waiting.pop(generation)


def foreign_commits(state: TableState, works: Collection[IngestRange]) -> frozenset[str]:
    """The active commits that are of none of these ingests."""
    names = {name for work in works for name in (work.name, work.former_name) if name}
    return frozenset(
        time for time, extra in state.commits() if extra.get(INGEST_KEY, "") not in names
    )


def whole_commits(
    state: TableState, work: IngestRange, keeps_after: Callable[[Position], bool]
) -> frozenset[str]:
    """The active commits of an ingest whose ranges the source still has. `keeps_after` says of a
    position whether all that came behind it is there."""
    found = set()
    before: TakenIn | None = None
    for time, extra in reversed(list(state.commits())):
        taken = _taken_in(time, extra, work, state.names_kept_max)
        if taken is None:
            continue
        follows = before is not None and before.generation + 1 == taken.generation
        if before is not None and follows and keeps_after(before.position):
            found.add(taken.instant)
        before = taken
    return frozenset(found)


def _taken_in(
    time: str, extra: Mapping[str, str], work: IngestRange, names_kept_max: int
) -> TakenIn | None:
    """What a commit of the ingest says; None of one that is another writer's."""
    name = extra.get(INGEST_KEY, "")
    if name not in {work.name, work.former_name} - {""} or carried_key(name) not in extra:
        return None
    checkpoint = Checkpoint.decode(extra[carried_key(name)], name=name, instant=time)
    names = _names(extra.get(FILES_KEY))
    # A commit of before the names were kept has none.
    is_cut = not names or len(names) >= names_kept_max
    return TakenIn(time, checkpoint.generation, checkpoint.position, names, is_cut)


def _names(text: str | None) -> tuple[str, ...]:
    try:
        found: Any = json.loads(text or "[]")
    except ValueError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()
