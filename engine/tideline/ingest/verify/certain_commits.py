"""Commits whose rows were made of what a source still has, or of nothing that it ever had.

A row that only the table has may be of a record that is gone. It cannot, where its commit took a
range in that is still there whole, or is not of the ingest at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried_value import carried_key
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.checkpoint import INGEST_KEY, Checkpoint
from tideline.ingest.sources.source import Position

ReadExtraMetadata = Callable[[Instant], Mapping[str, str]]


def first_position(
    timeline: ActiveTimeline, read_extra_metadata: ReadExtraMetadata, work: IngestRange
) -> Position | None:
    """The position of the ingest's first commit; None where that is archived."""
    for instant in timeline.completed().of(*COMMIT_ACTIONS).instants:
        checkpoint = _own(read_extra_metadata(instant), instant, work)
        if checkpoint is not None:
            return checkpoint.position if checkpoint.generation == 1 else None
    return None


def certain_commits(
    timeline: ActiveTimeline,
    read_extra_metadata: ReadExtraMetadata,
    work: IngestRange,
    keeps_after: Callable[[Position], bool],
) -> frozenset[str]:
    """Their instants, among those that are not archived. `keeps_after` says of a position whether
    the source has all that came behind it."""
    found = set()
    before: Checkpoint | None = None
    for instant in timeline.completed().of(*COMMIT_ACTIONS).instants:
        checkpoint = _own(read_extra_metadata(instant), instant, work)
        if checkpoint is None:
            found.add(str(instant.time))
            continue
        follows = before is not None and before.generation + 1 == checkpoint.generation
        if before is not None and follows and keeps_after(before.position):
            found.add(str(instant.time))
        before = checkpoint
    return frozenset(found)


def _own(extra: Mapping[str, str], instant: Instant, work: IngestRange) -> Checkpoint | None:
    """The checkpoint of a commit of the ingest; None of one that is another writer's."""
    name = extra.get(INGEST_KEY, "")
    if name not in {work.name, work.former_name} - {""}:
        return None
    return Checkpoint.decode(extra[carried_key(name)], name=name, instant=instant.time)
