"""Making, listing and dropping the partitions of a table's metadata table on demand.

Making one reads files twice. First without the lock, as long as that takes: what a partition asks
of files is remembered. Then under the lock of the table, as it is by then, where only files that
were committed meanwhile are left to be read; and the partition is written
(`metadata_table.index_making`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tideline.errors import (
    ConfigError,
    ConflictError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.commit.compared_keys import RememberedKeys
from tideline.hudi.commit.completion import has_lease, require_lease
from tideline.hudi.file_group.stored_contents import StoredContents
from tideline.hudi.metadata_table.bootstrap import bootstrap_metadata_table
from tideline.hudi.metadata_table.build_instants import LAST_BUILD
from tideline.hudi.metadata_table.config import (
    COLUMN_LIST,
    COLUMNS_MAX,
    MetadataTableConfig,
    MetadataTableMode,
    StatisticsConfig,
)
from tideline.hudi.metadata_table.index_build import builds_of, require_no_index_build
from tideline.hudi.metadata_table.index_build_ending import (
    builds_to_end,
    forget_builds,
    made_by,
)
from tideline.hudi.metadata_table.index_definitions import (
    believed_without_partition,
    read_definitions,
    undefine,
)
from tideline.hudi.metadata_table.index_dropping import drop_partitions, take_back
from tideline.hudi.metadata_table.index_making import (
    initial_records,
    make_partition,
    require_makeable,
)
from tideline.hudi.metadata_table.index_names import needed_by
from tideline.hudi.metadata_table.indexed_columns import META_COLUMNS
from tideline.hudi.metadata_table.partition import MetadataPartition, WholeTable
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.registry import (
    kept_partitions,
    makeable_partition,
    makeable_partitions,
)
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import (
    EXPRESSION_INDEX,
    FILES,
    METADATA_TABLE_PATH,
    RECORD_INDEX,
    SECONDARY_INDEX,
)
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.plain_json import members

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexMade:
    """An index that was made: how many records it has, None where that is not known.

    `has_new_metadata_table`: the table had none before. `advice` is what other writers of the table
    need, None where that is nothing.
    """

    name: str
    records: int | None
    has_new_metadata_table: bool = False
    advice: str | None = None

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return members(
            self, "name", "records", "advice", new_metadata_table="has_new_metadata_table"
        )


@dataclass(frozen=True, slots=True)
class TableIndex:
    """One partition of the metadata table.

    `is_in_use`: readers use it; otherwise it is what an attempt left, or is being built by Hudi.
    `is_kept`: commits of Tideline keep it, and do not drop it. `made_at` is None where that is no
    longer known. `columns` are those that it is defined for.
    """

    name: str
    is_in_use: bool
    is_kept: bool
    made_at: InstantTime | None
    file_groups: int
    size_bytes: int
    columns: tuple[str, ...] = ()

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        return {
            **members(self, "name", in_use="is_in_use", kept="is_kept"),
            "made_at": None if self.made_at is None else str(self.made_at),
            **members(self, "file_groups", "size_bytes", "columns"),
        }


class TableIndexes:
    """The indexes of one table, under its own settings with those `given` over them."""

    def __init__(self, table: HoodieTable, given: Mapping[str, str]) -> None:
        self._table = table
        self._given = given

    def preview(self, name: str) -> IndexMade:
        """What `create` would make now, without making it. Raises as it does, but ConflictError."""
        partition, whole = self._readable(name)
        records = initial_records(partition, whole)
        is_new = not self._table.config.keeps_metadata_table
        return IndexMade(name, len(records), is_new)

    def create(self, name: str) -> IndexMade:
        """Make an index of all that is committed; every commit keeps it from then on.

        Where the table has no metadata table, one is made before. Died in between: nothing is
        believed of what is left, and calling it again starts over. Raises ConfigError for a name
        that none has, an index that is there, or one that another has to be made before;
        UnsupportedTableError naming what is in the way, such as NaN; ConflictError while Hudi
        builds an index, or when the lock was lost.
        """
        table = self._table
        made, whole = self._readable(name)
        # What speaks against it now may have gone when the table is locked.
        made.initial(whole)
        lost: ConflictError | None = None
        is_listed = False
        with table.lock(self._settings().lock_timing()).acquire() as lease:
            timeline = self._admitted()
            self._require_metadata_table(name)
            guard = partial(require_lease, lease, table, table.instants.next_time(timeline))
            whole = replace(whole, timeline=timeline)
            require_no_index_build(table, timeline)
            require_makeable(made, whole)
            records = initial_records(made, whole)
            is_new = not table.config.keeps_metadata_table
            if is_new:
                bootstrap_metadata_table(table, timeline, guard)
            try:
                make_partition(made, records, whole, guard)
                is_listed = True
                guard()
            except ConflictError as error:
                if has_lease(lease):
                    raise
                lost = error
        if lost is not None:
            self._take_back(name, is_listed=is_listed)
            raise lost
        return IndexMade(name, len(records), is_new, self._advice(name))

    def drop(self, name: str, *, dry_run: bool = False, end_build: bool = False) -> tuple[str, ...]:
        """Drop an index, those that are worth nothing without it, and what an attempt to make it
        left; their names. `dry_run` changes nothing. `end_build` says that the writer of Hudi's is
        dead that was building it: all that this build made goes, then the build itself.

        Died in between: nothing is believed of what is left, and calling it again drops the rest.
        Raises ConfigError for `files`, which lists what the table has, and for what is not there;
        ConflictError while Hudi builds an index, or when the lock was lost.
        """
        table = self._table
        if name == FILES:
            raise ConfigError(
                "files is the list of the table's files: hoodie.metadata.enable=false, given to a "
                "write, switches the metadata table off as a whole",
                table=table.uri,
            )
        with table.lock(self._settings().lock_timing()).acquire() as lease:
            timeline = self._admitted()
            ended = builds_to_end(table, timeline, name) if end_build else {}
            require_no_index_build(table, timeline, ended)
            there = {*table.config.metadata_partitions_in_work}
            known = {*there, *self._folders(), *read_definitions(table)}
            if name not in known and not ended:
                raise ConfigError(
                    f"the table has no such index; it has: {', '.join(sorted(there)) or 'none'}",
                    table=table.uri,
                    value=name,
                )
            gone = (name, *sorted(other for other in there if name in needed_by(other)))
            if ended:
                in_work = there.difference(table.config.metadata_partitions)
                gone = made_by(ended, known, in_work, self._made_at())
            guard = partial(require_lease, lease, table, table.instants.next_time(timeline))
            if not dry_run:
                kept = {*table.config.metadata_partitions}.difference(gone)
                drop_partitions(table, gone, kept, guard)
                forget_builds(table, ended, guard)
        return gone

    def list(self) -> tuple[TableIndex, ...]:
        """Every partition of the metadata table by name. Raises CorruptTableError."""
        table = self._table
        listed = {*table.properties.reload().metadata_partitions}
        folders = self._folders()
        if not listed and not folders:
            return ()
        defined, made_at = read_definitions(table), self._made_at()
        kept = kept_partitions(table)
        return tuple(
            TableIndex(
                name,
                is_in_use=name in listed,
                is_kept=name in kept,
                made_at=made_at.get(name),
                file_groups=groups,
                size_bytes=size_bytes,
                columns=tuple(_columns(defined.get(name))),
            )
            for name in sorted({*listed, *folders})
            for groups, size_bytes in [self._files_of(name)]
        )

    def _take_back(self, name: str, *, is_listed: bool) -> None:
        """Take back what was published by a request that was under way when the lock ended."""
        table = self._table
        try:
            with table.lock(self._settings().lock_timing()).acquire() as lease:
                timeline = self._admitted()
                guard = partial(require_lease, lease, table, table.instants.next_time(timeline))
                if is_listed:
                    take_back(table, name, guard)
                elif name in believed_without_partition(
                    table, table.config.metadata_partitions_in_work
                ) and not builds_of(table, timeline, name):
                    undefine(table, (name,), guard)
        except TidelineError as error:
            _log.warning("%s may be defined or listed without being right: %s", name, error)

    def _admitted(self) -> ActiveTimeline:
        timeline = admit(self._table, Permission.REPAIR)
        restore = timeline.pending().of(Action.RESTORE).first()
        if restore is not None:
            raise ConflictError(
                "a restore is unfinished: finish it with `tideline restore` first",
                table=self._table.uri,
                instant=restore.time,
            )
        return timeline

    def _settings(self) -> Settings:
        return Settings({**self._table.config.properties, **self._given})

    def _require_metadata_table(self, name: str) -> None:
        """Raise where the table keeps no such index, or its metadata table goes with its next
        commit."""
        table = self._table
        if not table.layout.keeps_partition(name):
            raise UnsupportedTableError(
                f"{name} is not kept in tables of this version: upgrade the table first (tideline "
                "upgrade)",
                table=table.uri,
                value=table.layout.table_version,
            )
        if MetadataTableConfig.from_settings(self._settings()).mode is MetadataTableMode.OFF:
            raise ConfigError(
                "hoodie.metadata.enable=false among the table's settings switches its metadata "
                "table off at every commit, and its indexes with it: leave that out",
                table=table.uri,
            )

    def _readable(self, name: str) -> tuple[MetadataPartition, WholeTable]:
        """The partition of a name, and what it is made of now. Raises where it cannot be made."""
        table = self._table
        asked = StatisticsConfig.from_settings(self._settings())
        columns = asked.columns or None
        partition = makeable_partition(table, name, columns)
        if name.startswith(EXPRESSION_INDEX):
            raise ConfigError(
                "expression indexes are not made: queries of Hudi 1.2 lose rows where a table has "
                f"one. For a plain column there is {SECONDARY_INDEX}<column>",
                table=table.uri,
                value=name,
            )
        if partition is None:
            known = (*sorted(makeable_partitions()), f"{SECONDARY_INDEX}<column>")
            raise ConfigError(
                f"no index of this name is made here; known: {', '.join(known)}",
                table=table.uri,
                value=name,
            )
        timeline = self._admitted()
        self._require_metadata_table(name)
        whole = WholeTable(
            table,
            timeline,
            StoredContents(table.store),
            columns,
            asked.columns_max,
            compare_keys=RememberedKeys(table),
        )
        require_makeable(partition, whole)
        return partition, whole

    def _advice(self, name: str) -> str | None:
        """Hudi's writers index by their own settings: they drop a record index that these do not
        name, and add columns to the definition of statistics that older files have no rows of."""
        if name == RECORD_INDEX:
            return (
                "keys are unique in the whole table from now on; give writers of Hudi "
                "hoodie.metadata.global.record.level.index.enable=true, or their next write drops "
                "the index"
            )
        if not any(map(self._settings().is_set, (COLUMN_LIST, COLUMNS_MAX))):
            return None
        fields = _columns(read_definitions(self._table).get(name))
        own = ",".join(column for column in fields if column not in META_COLUMNS)
        if not own:
            return None
        return (
            f"give writers of Hudi {COLUMN_LIST}={own} too: with its defaults they add columns "
            "that older files have no rows of, and queries of Hudi lose rows of these"
        )

    def _folders(self) -> Collection[str]:
        """The partitions that the metadata table has folders of, in use or not."""
        below = self._table.store.list_directory(METADATA_TABLE_PATH).directories
        names = {path.rpartition("/")[2] for path in below}
        return {name for name in names if not name.startswith(".")}

    def _files_of(self, name: str) -> tuple[int, int]:
        """How many file groups a partition has, and what its files take."""
        found = list(self._table.store.list_directory(f"{METADATA_TABLE_PATH}/{name}").objects)
        names = [info.path.rpartition("/")[2].lstrip(".") for info in found]
        groups = {file.partition("_")[0] for file in names if not file.startswith("hoodie_")}
        return len(groups), sum(info.size_bytes for info in found)

    def _made_at(self) -> Mapping[str, InstantTime]:
        """When partitions were made, as far as the metadata table's timeline says so."""
        table = self._table
        if not table.config.keeps_metadata_table:
            return {}
        metadata = MetadataTable(table.store, table.clock)
        found: dict[str, InstantTime] = {}
        for instant in metadata.timeline().of(Action.DELTACOMMIT).completed():
            if instant.time <= LAST_BUILD and instant.completed_at is not None:
                commit = metadata.timelines.read_commit(instant)
                found |= dict.fromkeys(commit.partition_to_write_stats, instant.completed_at)
        return found


def _columns(definition: Any) -> tuple[str, ...]:
    fields = definition.get("sourceFields") if isinstance(definition, Mapping) else None
    return tuple(map(str, fields)) if isinstance(fields, list) else ()
