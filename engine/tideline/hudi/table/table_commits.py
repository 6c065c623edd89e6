"""What instants of an open table did, or plan to do, in the active timeline and in the archive.

Instants and their plans never change, so what was read of one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from tideline.errors import ObjectNotFoundError
from tideline.hudi.table.commit_note import CommitNote
from tideline.hudi.table.file_group import FileGroupId, replaced_groups
from tideline.hudi.table.pending_plan import planned_groups
from tideline.hudi.table.table_instants import TableInstants
from tideline.hudi.table.table_properties import TableProperties
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.archived import ArchivedTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

_NOTES_MAX = 1000
"""A table may be open for as long as a stream runs: above it, the older half is read again."""


class TableCommits:
    """The commits of one table, its archive, and its pending plans."""

    def __init__(self, properties: TableProperties, instants: TableInstants) -> None:
        self._properties = properties
        self._instants = instants
        self._replaced_by: dict[InstantTime, tuple[FileGroupId, ...]] = {}
        self._planned_by: dict[Instant, tuple[FileGroupId, ...]] = {}
        self._notes: dict[Instant, CommitNote] = {}
        self._newest: tuple[Instant, CommitMetadata] | None = None
        self._archived: dict[InstantTime, bool] = {}
        self._completed: dict[InstantTime, InstantTime | None] = {}

    def read(self, instant: Instant) -> CommitMetadata:
        """What a completed commit did, also when it was archived since the timeline was read. That
        of the newest one is kept, for each write reads it several times.

        Raises ObjectNotFoundError when it is in neither timeline (restored away), CorruptTableError
        when it cannot be read.
        """
        newest = self._newest
        if newest is not None and newest[0] == instant:
            return newest[1]
        try:
            metadata = self._instants.timelines.read_commit(instant)
        except ObjectNotFoundError:
            entry = self.archive().find(frozenset({instant.time})).get(instant.time)
            if entry is None:
                raise
            return entry.commit_metadata()
        if newest is None or instant.time > newest[0].time:
            self._newest = instant, metadata
        return metadata

    def note(self, instant: Instant) -> CommitNote:
        """What is remembered of a completed commit. Raises as `read`."""
        found = self._notes.get(instant)
        if found is None:
            found = self._notes[instant] = CommitNote.of(self.read(instant))
            if len(self._notes) > _NOTES_MAX:
                self._notes = dict(sorted(self._notes.items())[_NOTES_MAX // 2 :])
        return found

    def partitions_of(self, instants: Iterable[Instant]) -> frozenset[str] | None:
        """The partitions in which completed commits wrote or replaced files; None where one was
        undone meanwhile. Raises as `read`."""
        found: set[str] = set()
        for instant in instants:
            try:
                commit = self.read(instant)
            except ObjectNotFoundError:
                return None
            found.update(commit.partition_to_write_stats)
            found.update(commit.partition_to_replace_file_ids or {})
        return frozenset(found)

    def archive(self) -> ArchivedTimeline:
        """The instants that left the active timeline; nothing is read before it is asked for."""
        form = self._properties.layout.archive
        return form.opens(self._properties.store, form.folder)

    def is_archived(self, time: InstantTime) -> bool:
        """Whether a commit of this time is in the archive; asked once while the table is open."""
        if time not in self._archived:
            self._archived[time] = bool(self.archive().find(frozenset({time})))
        return self._archived[time]

    def archived_completion(self, time: InstantTime) -> InstantTime | None:
        """When an archived commit completed; each file of the archive is asked once."""
        if time not in self._completed:
            self._completed.update(self.archive().completions_around(time))
        return self._completed.setdefault(time, None)

    def replaced_groups(self, timeline: ActiveTimeline) -> Mapping[FileGroupId, InstantTime]:
        """The file groups that completed replacecommits replaced, with the instant that did.

        Raises CorruptTableError for a replacecommit that cannot be read.
        """
        replaced: dict[FileGroupId, InstantTime] = {}
        for instant in timeline.of(Action.REPLACECOMMIT).completed():
            if instant.time not in self._replaced_by:
                metadata = self.read(instant)
                self._replaced_by[instant.time] = replaced_groups(metadata)
            for group in self._replaced_by[instant.time]:
                replaced.setdefault(group, instant.time)
        return replaced

    def planned_groups(
        self, timeline: ActiveTimeline, *actions: Action
    ) -> Mapping[FileGroupId, InstantTime]:
        """The file groups named by pending plans of these actions, with the plan's instant.

        Raises CorruptTableError for a plan that cannot be read.
        """
        planned: dict[FileGroupId, InstantTime] = {}
        for instant in timeline.of(*actions).pending():
            if instant not in self._planned_by:
                path = self._instants.timelines.path(instant.in_state(State.REQUESTED))
                # A writer may roll its instant back at any moment.
                with suppress(ObjectNotFoundError), self._instants.timelines.naming(instant):
                    body = self._properties.store.get(path)
                    self._planned_by[instant] = planned_groups(body, instant.action, path=path)
            for group in self._planned_by.get(instant, ()):
                planned[group] = instant.time
        return planned
