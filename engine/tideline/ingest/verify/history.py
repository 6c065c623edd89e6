"""The commits that took a source in, as far as the table still knows them, and those whose rows are
not of what a source has lost.

A row that only the table has may be of a record that is gone. It cannot, where its commit took a
range in that is still there whole, or is not of an ingest that is compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried_value import carried_key
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.execute.hudi_table import FILES_KEY, NAMES_KEPT_MAX
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.checkpoint import INGEST_KEY, Checkpoint
from tideline.ingest.sources.replay import TakenIn
from tideline.ingest.sources.source import Position
from tideline.lake_table import LakeTable

_WAITING_MAX = 200


def commits_of(
    table: LakeTable, timeline: ActiveTimeline, work: IngestRange, newest: Checkpoint
) -> Iterator[TakenIn]:
    """Those of an ingest up to a checkpoint, the newest first. The archive is read when those that
    are active have been given."""
    last = newest.generation + 1
    # Files of an archive overlap in time.
    waiting: dict[int, TakenIn] = {}
    for time, extra in _extra_metadata(table, timeline):
        taken = _taken_in(time, extra, work)
        if taken is None or taken.generation >= last:
            continue
        waiting[taken.generation] = taken
        while waiting and (last - 1 in waiting or len(waiting) > _WAITING_MAX):
            last = max(waiting)
            yield waiting.pop(last)
    for generation in sorted(waiting, reverse=True):
        yield waiting.pop(generation)


def foreign_commits(
    table: LakeTable, timeline: ActiveTimeline, works: Collection[IngestRange]
) -> frozenset[str]:
    """The instants of active commits that are of none of these ingests."""
    names = {name for work in works for name in (work.name, work.former_name) if name}
    return frozenset(
        str(instant.time)
        for instant in timeline.completed().of(*COMMIT_ACTIONS).instants
        if _metadata(table, instant).get(INGEST_KEY, "") not in names
    )


def whole_commits(
    table: LakeTable,
    timeline: ActiveTimeline,
    work: IngestRange,
    keeps_after: Callable[[Position], bool],
) -> frozenset[str]:
    """The instants of active commits of an ingest whose ranges the source still has. `keeps_after`
    says of a position whether all that came behind it is there."""
    found = set()
    before: TakenIn | None = None
    for instant in timeline.completed().of(*COMMIT_ACTIONS).instants:
        taken = _taken_in(str(instant.time), _metadata(table, instant), work)
        if taken is None:
            continue
        follows = before is not None and before.generation + 1 == taken.generation
        if before is not None and follows and keeps_after(before.position):
            found.add(taken.instant)
        before = taken
    return frozenset(found)


def _extra_metadata(
    table: LakeTable, timeline: ActiveTimeline
) -> Iterator[tuple[str, Mapping[str, str]]]:
    for instant in reversed(timeline.completed().of(*COMMIT_ACTIONS).instants):
        yield str(instant.time), _metadata(table, instant)
    if not timeline.has_archive:
        return
    archive = table.hoodie_table.commits.archive()
    try:
        for file in archive.files():
            for entry in archive.read(file).entries:
                if entry.instant.is_completed and entry.instant.action in COMMIT_ACTIONS:
                    yield str(entry.instant.time), entry.extra_metadata()
    except (CorruptTableError, ObjectNotFoundError):
        return  # damaged, or merged meanwhile: what comes before is not known


def _metadata(table: LakeTable, instant: Instant) -> Mapping[str, str]:
    return table.hoodie_table.commits.read(instant).extra_metadata


def _taken_in(time: str, extra: Mapping[str, str], work: IngestRange) -> TakenIn | None:
    """What a commit of the ingest says; None of one that is another writer's."""
    name = extra.get(INGEST_KEY, "")
    if name not in {work.name, work.former_name} - {""} or carried_key(name) not in extra:
        return None
    checkpoint = Checkpoint.decode(extra[carried_key(name)], name=name, instant=time)
    names = _names(extra.get(FILES_KEY))
    # A commit of before the names were kept has none.
    is_cut = not names or len(names) >= NAMES_KEPT_MAX
    return TakenIn(time, checkpoint.generation, checkpoint.position, names, is_cut)


def _names(text: str | None) -> tuple[str, ...]:
    try:
        found: Any = json.loads(text or "[]")
    except ValueError:
        return ()
    return tuple(map(str, found)) if isinstance(found, list) else ()
