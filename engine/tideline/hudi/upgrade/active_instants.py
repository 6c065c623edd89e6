"""The active timeline in another layout: every object of every instant, under its new name.

Commit metadata is JSON in layout 1 and Avro in layout 2; plans and all else are Avro in both. What
a clustering left before it completed has another name in layout 2.
Source: Hudi's SevenToEightUpgradeHandler, EightToSevenDowngradeHandler.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.layout import TimelineLayout
from tideline.hudi.upgrade.completion_times import Named, completion_times


@dataclass(frozen=True, slots=True)
class ConvertedObject:
    """An object of the timeline to be. `completed_ms`: when the instant completed, where its new
    name does not say it."""

    path: str
    body: bytes
    completed_ms: int | None = None


def converted_instants(
    table: HoodieTable, timeline: ActiveTimeline, layout: TimelineLayout
) -> Iterator[ConvertedObject]:
    """The objects of `timeline`, as read from a listing, in another layout.

    Raises CorruptTableError for commit metadata that cannot be read.
    """
    old = table.timelines.layout
    clusterings = _clusterings(table, timeline)
    done = [] if old.has_completion_times else map(_name, timeline.completed())
    completed = completion_times(done, table.instants.zone)
    for instant in sorted(timeline.made_ms):
        body = converted_body(table.store.get(old.path(instant)), instant, old, layout)
        action = instant.action
        if instant.is_pending and action.when_completed is Action.REPLACECOMMIT:
            is_clustering = instant.time in clusterings
            action = layout.clustering if is_clustering else Action.REPLACECOMMIT
        at = completed.get(_name(instant)) if instant.is_completed else None
        moved = replace(instant, action=action, completion_time=at)
        completed_ms = None
        if instant.completion_time is not None:
            completed_ms = table.instants.zone.epoch_ms(instant.completion_time)
        yield ConvertedObject(layout.path(moved), body, completed_ms)


def converted_body(
    body: bytes, instant: Instant, old: TimelineLayout, new: TimelineLayout
) -> bytes:
    """What the instant's object says, as the other layout writes it."""
    if not _has_commit_metadata(instant) or (not body and instant.is_pending):
        return body
    return new.encode_commit(_as_completed(old.decode_commit(body, instant), instant))


def date_object(table: HoodieTable, made: ConvertedObject) -> None:
    """Give an object the time at which its instant completed, where the store lets one: readers of
    layout 1 take that for the time of completion."""
    local = table.store.local_path(made.path)
    if local is not None and made.completed_ms is not None:
        seconds = made.completed_ms / 1000
        os.utime(local, (seconds, seconds))


def _has_commit_metadata(instant: Instant) -> bool:
    if instant.action is Action.CLUSTERING:
        return False
    if instant.action is Action.REPLACECOMMIT:
        return instant.state is not State.REQUESTED
    return instant.action in COMMIT_ACTIONS


def _as_completed(metadata: CommitMetadata, instant: Instant) -> CommitMetadata:
    """A replacecommit says what it replaced, if nothing: its metadata is of a kind of its own."""
    says_nothing = metadata.partition_to_replace_file_ids is None
    if instant.action is Action.REPLACECOMMIT and says_nothing:
        return replace(metadata, partition_to_replace_file_ids={})
    return metadata


def _clusterings(table: HoodieTable, timeline: ActiveTimeline) -> frozenset[InstantTime]:
    """The completed replacecommits that are clusterings, and those that are pending by name."""
    named = {made_at.time for made_at in timeline.made_ms if made_at.action is Action.CLUSTERING}
    replaced = timeline.of(Action.REPLACECOMMIT).completed()
    did = {instant.time for instant in replaced if table.commits.note(instant).is_clustering}
    return frozenset(named | did)


def _name(instant: Instant) -> Named:
    return instant.time, instant.action.when_completed
