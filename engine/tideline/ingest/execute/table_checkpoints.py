"""The checkpoints that a table carries, read by every process that takes rows in."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ConflictError
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.carried import read_carried
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Instant
from tideline.ingest.operation.operation import IngestRange
from tideline.ingest.sources.checkpoint import (
    CHECKPOINT_PREFIX,
    Checkpoint,
    newest_of,
    read_checkpoints,
    read_newest_checkpoints,
    with_others,
)
from tideline.ingest.sources.source import Declared
from tideline.lake_table import LakeTable


def current_checkpoints(
    table: LakeTable | None, name: str, former_name: str = "", source: Declared | None = None
) -> dict[str, Checkpoint]:
    """The checkpoint of ingest `name`, also under its former name, and those of others that the
    newest commit carries. With a `source` that of another program counts too, which fed the table
    from it."""
    if table is None:
        return {}
    timeline = table.timeline()

    def read(instant: Instant) -> Mapping[str, str]:
        return table.hoodie_table.commits.read(instant).extra_metadata

    newest = timeline.completed().of(*COMMIT_ACTIONS).last()
    carried = read(newest) if newest is not None else {}
    others = {
        key.removeprefix(CHECKPOINT_PREFIX) for key in carried if key.startswith(CHECKPOINT_PREFIX)
    }
    found = read_checkpoints(
        timeline,
        read,
        ({name, former_name} | others) - {""},
        lambda: _archived(table, timeline, remembers=False),
    )
    if source is None:
        return found
    return with_others(found, (name, former_name), source, timeline, read)


def require_generation(table: LakeTable, timeline: ActiveTimeline, work: IngestRange) -> None:
    """Raise ConflictError when another driver of this ingest has committed since it was planned.

    Asked under the table lock: two drivers write different file groups, so nothing else would
    keep them from taking the same rows in twice.
    """

    def read(instant: Instant) -> Mapping[str, str]:
        return table.hoodie_table.commits.read(instant).extra_metadata

    found = newest_of(
        read_checkpoints(
            timeline,
            read,
            {work.name, work.former_name} - {""},
            lambda: _archived(table, timeline, remembers=True),
        ),
        work.name,
        work.former_name,
    )
    generation = found.generation if found else 0
    if generation != work.generation:
        raise ConflictError(
            f"another driver of ingest {work.name!r} has committed",
            table=table.uri,
            value=f"generation {generation}, planned with {work.generation}",
        )


def other_ingests(table: LakeTable, timeline: ActiveTimeline, work: IngestRange) -> list[str]:
    """Ingests that have rows in the table besides this one, whose former name is its own."""

    def read(instant: Instant) -> Mapping[str, str]:
        return table.hoodie_table.commits.read(instant).extra_metadata

    found = read_newest_checkpoints(
        timeline, read, lambda: _archived(table, timeline, remembers=False)
    )
    return sorted(set(found) - {work.name, work.former_name})


def _archived(table: LakeTable, timeline: ActiveTimeline, *, remembers: bool) -> dict[str, str]:
    """Checkpoints that archived commits carried; `remembers` only under the table lock."""
    if not timeline.has_archive:
        return {}
    return read_carried(
        table.hoodie_table.commits.archive(), CHECKPOINT_PREFIX, remembers=remembers
    )
