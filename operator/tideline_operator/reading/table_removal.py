"""Deleting a Hudi table's own files from its folder, and nothing else there.

1. A first listing finds what else is there: tables below the root, and which folders are partitions
   of this table.
2. What it is published as goes first, so that no engine of Iceberg looks for files that are gone.
   Data is next: base and log files, by name, in partitions. Then the partitions' metadata, then
   `.hoodie`, and hoodie.properties last: the file that identifies the table stays as long as any
   other file of it. After a death in between, or out of time, the next turn continues.
3. Files that are not the table's stay and are reported: files of unknown names, folders that are
   not partitions, tables below the root, places of other LakeTables.

Every delete passes the guard of the engine (`tideline.storage.delete_scope`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tideline.hudi.table.file_group import split_path
from tideline.hudi.table.file_system_view import parse_data_file
from tideline.hudi.table.partition_metadata import METADATA_NAMES
from tideline.publication.published_files import PublishedFiles
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.nested_tables import CONTROL_FOLDER, HUDI, nested_tables, root_around
from tideline.storage.object_store import ObjectStore
from tideline.wording import counted

_PROPERTIES = ".hoodie/hoodie.properties"
_OBJECTS_AT_ONCE = 250
"""In one request, which is to end within its deadline."""
_NAMED_MAX = 3


@dataclass(slots=True)
class Kept:
    """Files that stay, and why; only some are named."""

    count: int = 0
    named: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, reason: str) -> None:
        self.count += 1
        if len(self.named) < _NAMED_MAX:
            self.named[path] = reason

    def __str__(self) -> str:
        named = "; ".join(f"{path}: {reason}" for path, reason in self.named.items())
        more = self.count - len(self.named)
        return f"kept {counted(self.count, 'file')} outside of the table: {named}" + (
            f"; and {more:,} more" if more else ""
        )


@dataclass(slots=True)
class TableRemoval:
    """The removal of one table from `store`, its root.

    `others` are places of other LakeTables below the root, by path, each with its owner.
    `may_go_on` is called before every request that deletes: False ends the turn; it may raise.
    """

    store: ObjectStore
    others: dict[str, str]
    may_go_on: Callable[[], bool]
    deleted: int = 0
    kept: Kept = field(default_factory=Kept)
    _partitions: set[str] = field(default_factory=set)
    _nested: dict[str, str] = field(default_factory=dict)
    _published: frozenset[str] = frozenset()
    _is_surveyed: bool = False

    def run(self) -> bool:
        """Delete the table's files; False when there was no time for all of them: run it again."""
        if not self._is_surveyed:
            self._survey()
        self.kept = Kept()
        published = PublishedFiles.of_table(self.store).paths()
        self._published = frozenset(published)
        data = (path for path in self._paths() if self._is_data(path))
        metadata = (path for path in self._paths() if not _is_control(path))
        control = (path for path in self._paths() if _is_control(path) and path != _PROPERTIES)
        last = (path for path in self._paths() if path == _PROPERTIES)
        for paths in (published, data, metadata, control, last):
            # What is neither data nor metadata is checked, and kept, with the metadata.
            if not self._delete(paths, counts_kept=paths is metadata):
                return False
        return True

    def _survey(self) -> None:
        """Find partitions and tables below the root, keeping no path of the listing."""
        roots: dict[str, str] = {}
        for batch in _batches(self._paths()):
            roots |= nested_tables(batch)
            for path in batch:
                folder, name = split_path(path)
                if name in METADATA_NAMES and not _is_control(path):
                    self._partitions.add(folder)
        hudi = {root: kind for root, kind in roots.items() if kind == HUDI}
        self._partitions = {
            partition for partition in self._partitions if root_around(partition, hudi) is None
        }
        # Iceberg metadata in a partition of this table is just a file that was put there.
        others = {root: kind for root, kind in roots.items() if not self._has_partition(root)}
        self._nested = hudi | others
        self._is_surveyed = True

    def _has_partition(self, root: str) -> bool:
        return any(
            partition == root or partition.startswith(f"{root}/") for partition in self._partitions
        )

    def _paths(self) -> Iterator[str]:
        return (found.path for found in self.store.list())

    def _is_data(self, path: str) -> bool:
        folder, name = split_path(path)
        return folder in self._partitions and parse_data_file(folder, name, 0) is not None

    def _delete(self, paths: Iterable[str], *, counts_kept: bool) -> bool:
        scope = DeleteScope(
            self.store,
            "deletionPolicy: Delete",
            objection=self._objection,
            control=(CONTROL_FOLDER,),
            nested=self._nested,
        )
        for batch in _batches(paths):
            refused = scope.refusals(batch)
            if counts_kept:
                for path, reason in refused.items():
                    self.kept.add(path, reason)
            allowed = [path for path in batch if path not in refused]
            if not allowed:
                continue
            if not self.may_go_on():
                return False
            scope.remove_many(allowed)
            self.deleted += len(allowed)
        return True

    def _objection(self, path: str) -> str | None:
        place = root_around(path, self.others)
        if place is not None:
            return f"it belongs to {self.others[place]}"
        if path in self._published:
            return None
        folder, name = split_path(path)
        if folder not in self._partitions:
            return "its folder is not a partition of the table"
        if name in METADATA_NAMES or parse_data_file(folder, name, 0) is not None:
            return None
        return "its name is not that of a table's file"


def _is_control(path: str) -> bool:
    return path.startswith(f"{CONTROL_FOLDER}/")


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(paths)
    while batch := list(itertools.islice(remaining, _OBJECTS_AT_ONCE)):
        yield batch
