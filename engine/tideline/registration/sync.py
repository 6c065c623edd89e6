"""Bringing a metastore up to a table's newest completed commit.

1. What the metastore has is read first and the timeline after it: partitions that it has and the
   table has not were dropped, and are not yet to come.
2. Commits since the last sync name the partitions to compare; all are compared where that is not
   known: the first time, after a restore, where commits may have been archived in between, where
   another table is at this place now.
3. New columns are sent before partitions, and last of all the instant up to which it is synced.
   That is void where another process has synced meanwhile; then all of it is done again, for what
   this process compared as well, as both may have changed the same partition.

Died on the way: the instant is the one before, so the next sync does the rest. Calls that were made
already change nothing when they are made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from tideline.errors import ConflictError
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.registration.definition import Definition, definition, registered_names
from tideline.registration.metastore import (
    LAST_COMMIT,
    Metastore,
    RegisteredPartition,
    RegisteredTable,
)
from tideline.registration.outcome import Synced, TableSynced
from tideline.registration.partition_values import PartitionValues
from tideline.registration.plan import (
    PartitionChange,
    partitions_below,
    plan_partitions,
    plan_table,
)
from tideline.registration.table_name import TableName
from tideline.retry import RetryPolicy

LAST_COMPLETION = "last_commit_completion_time_sync"
SETTLED_UNTIL = "tideline.sync.settled_until"
"""Of a registered table: the time before which no commit was missing when it was synced."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What there is to register, as of a timeline."""

    timeline: ActiveTimeline
    columns: pa.Schema
    newest: InstantTime

    @property
    def position(self) -> dict[str, str]:
        """The parameters that say up to where a table is synced."""
        completed = self.timeline.of(*COMMIT_ACTIONS).completed()
        times = [instant.completion_time for instant in completed if instant.completion_time]
        position = {
            LAST_COMMIT: str(self.newest),
            SETTLED_UNTIL: self.timeline.settled_until(),
        }
        return position | ({LAST_COMPLETION: str(max(times))} if times else {})


def sync_table(
    table: HoodieTable,
    metastore: Metastore,
    name: TableName,
    *,
    everything: bool = False,
    dry_run: bool = False,
) -> Synced:
    """Register a table as `name`, up to its newest commit; `everything` compares all partitions,
    `dry_run` changes nothing.

    Raises UnsupportedTableError for what no metastore can hold, ConfigError where it has another
    table of that name, ConflictError when others were always first, StorageUnavailableError.
    """
    sync = _Sync(table, metastore, name, everything=everything)
    for _ in RetryPolicy().attempts(table.clock):
        done = sync.attempt(dry_run=dry_run)
        if done is not None:
            return done
    raise ConflictError("other processes were always first to sync the table", table=table.uri)


class _Sync:
    """One sync, with what its attempts compared."""

    def __init__(
        self, table: HoodieTable, metastore: Metastore, name: TableName, *, everything: bool
    ) -> None:
        self.table = table
        self.metastore = metastore
        self.name = name
        self.names = registered_names(table.config, name)
        self._folders: frozenset[str] | None = None if everything else frozenset()
        """What has to be compared, None for everything."""

    def attempt(self, *, dry_run: bool) -> Synced | None:
        """None when another process was first."""
        seen = [self.metastore.table(name) for name in self.names]
        facts = self._facts()
        if facts is None:
            return Synced(self.metastore.kind, None)
        wanted = self._definition(facts)
        folders = self._compared(seen, facts.timeline)
        there = [self._registered(each, wanted.values_of(each), folders) for each in seen]
        if folders is None:
            facts = self._facts() or facts
            wanted = self._definition(facts)
        present = self._present(facts.timeline, folders)
        done = []
        for before, table, partitions in zip(seen, wanted.tables, there, strict=True):
            planned = plan_table(before, table)
            by_values = wanted.values_of(before).folders(present)
            found = partitions_below(planned.location, by_values)
            step = _Step(self.metastore, before, planned, plan_partitions(partitions, found))
            if not dry_run and not step.take(facts.position):
                return None
            done.append(step.outcome)
        return Synced(self.metastore.kind, str(facts.newest), tuple(done))

    def _facts(self) -> _Facts | None:
        timeline = self.table.timeline()
        newest = timeline.of(*COMMIT_ACTIONS).completed().last()
        columns = self.table.schemas.newest(timeline)
        if newest is None or columns is None:
            return None
        return _Facts(timeline, columns, newest.time)

    def _definition(self, facts: _Facts) -> Definition:
        return definition(
            self.table.config,
            facts.columns,
            name=self.name,
            location=self.metastore.spelled(self.table.location),
            parameters=self.metastore.parameters_for(self.table.config),
        )

    def _compared(
        self, seen: Iterable[RegisteredTable | None], timeline: ActiveTimeline
    ) -> frozenset[str] | None:
        for before in seen:
            changed = None if before is None else self._changed(before, timeline)
            known = self._folders
            self._folders = None if known is None or changed is None else known | changed
        return self._folders

    def _changed(self, seen: RegisteredTable, timeline: ActiveTimeline) -> frozenset[str] | None:
        """The partitions in which files may have changed since it was synced, None for all."""
        settled, last = seen.parameters.get(SETTLED_UNTIL), seen.last_commit
        if not settled or not last:
            return None
        start = str(timeline.start or "")
        completed = timeline.of(*COMMIT_ACTIONS).completed().instants
        times = {str(instant.time) for instant in completed}
        if timeline.has_archive and start > settled:
            return None
        is_archived = timeline.has_archive and last < start
        if last not in times and not is_archived:
            return None
        new = (
            instant
            for instant in completed
            if str(instant.time) > settled or (str(instant.time) == settled != last)
        )
        return self.table.commits.partitions_of(new)

    def _registered(
        self,
        seen: RegisteredTable | None,
        values: PartitionValues,
        folders: frozenset[str] | None,
    ) -> tuple[RegisteredPartition, ...]:
        if seen is None or not seen.partition_columns:
            return ()
        if folders is None:
            return tuple(self.metastore.partitions(seen))
        if not folders:
            return ()
        asked = {values.of(folder) for folder in folders}
        found = self.metastore.partitions(seen, asked)
        return tuple(partition for partition in found if partition.values in asked)

    def _present(self, timeline: ActiveTimeline, folders: frozenset[str] | None) -> tuple[str, ...]:
        """The folders with files, of all or of those to compare; none of a table without them."""
        if not self.table.config.partition_fields or folders == frozenset():
            return ()
        view = self.table.files.read_view(timeline, folders)
        return tuple(folder for folder in view.partitions if view.file_groups(folder))


@dataclass(frozen=True, slots=True)
class _Step:
    """What has to be done to one table of the metastore."""

    metastore: Metastore
    seen: RegisteredTable | None
    planned: RegisteredTable
    partitions: PartitionChange

    @property
    def outcome(self) -> TableSynced:
        change = self.partitions
        return TableSynced(
            str(self.planned.name),
            is_created=self.seen is None,
            is_altered=self.seen is not None and self.seen != self.planned,
            partitions_added=len(change.added),
            partitions_moved=len(change.moved),
            partitions_dropped=len(change.dropped),
        )

    def take(self, position: Mapping[str, str]) -> bool:
        """False when another process was first."""
        whole = replace(self.planned, parameters={**self.planned.parameters, **position})
        now = whole if self.partitions.is_empty else self.planned
        seen = self.seen
        if seen is None:
            self.metastore.create_database(self.planned.name.database)
            if not self.metastore.create_table(now):
                return False
        elif now != seen and not self.metastore.alter_table(seen, now):
            return False
        if self.partitions.is_empty:
            return True
        self._send_partitions()
        known = self.metastore.table(now.name) if now != seen else seen
        return known is not None and self._note(known, position)

    def _send_partitions(self) -> None:
        change, table = self.partitions, self.planned
        if change.added:
            self.metastore.add_partitions(table, change.added)
        if change.moved:
            self.metastore.move_partitions(table, change.moved)
        if change.dropped:
            self.metastore.drop_partitions(table, change.dropped)

    def _note(self, known: RegisteredTable, position: Mapping[str, str]) -> bool:
        if known.last_commit != (self.seen.last_commit if self.seen else None):
            return False
        noted = replace(known, parameters={**known.parameters, **position})
        return self.metastore.alter_table(known, noted)
