"""The files of an open table: listings of its folder, and the files that a timeline shows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from tideline.errors import StorageUnavailableError
from tideline.hudi.table.bootstrap_index import read_bootstrap_index
from tideline.hudi.table.file_group import BaseFile, FileGroupId, LogFile, SourceFile, split_path
from tideline.hudi.table.file_system_view import FileSystemView, Listing, parse_data_file
from tideline.hudi.table.folder_listing import FolderListing
from tideline.hudi.table.partition_metadata import (
    METADATA_DIRECTORY,
    PARTITION_METADATA,
    find_partitions,
    is_table_metadata,
)
from tideline.hudi.table.table_commits import TableCommits
from tideline.hudi.table.table_config import PROPERTIES_PATH
from tideline.hudi.table.table_properties import TableProperties
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.delete_scope import DeleteScope, no_objection
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import HUDI, root_around
from tideline.storage.object_store import ObjectInfo

CommittedFiles = Callable[[Iterable[str] | None], Listing | None]
"""What the metadata table lists of these partitions, or of all; None where it cannot be read."""

# Up to here one request per partition is cheaper than listing the whole table.
_PARTITION_LISTINGS_MAX = 32


class TableFiles:
    """The files of one table."""

    def __init__(
        self,
        location: StoreLocation,
        properties: TableProperties,
        commits: TableCommits,
        committed_files: CommittedFiles,
    ) -> None:
        self._location = location
        self._store = properties.store
        self._properties = properties
        self._commits = commits
        self._committed_files = committed_files
        self._sources: Mapping[FileGroupId, SourceFile] | None = None
        self.nested: dict[str, str] = {}
        """Tables below this one, by root with their format, as far as listings have shown them."""

    def delete_scope(
        self,
        operation: str,
        objection: Callable[[str], str | None] = no_objection,
        *,
        control: Container[str] = frozenset(),
    ) -> DeleteScope:
        """What `operation` may delete here; never anything of a table below this one."""
        return DeleteScope(self._store, operation, objection, control, self.nested)

    def objects(self) -> tuple[ObjectInfo, ...]:
        """Every object in the folder, `.hoodie` included, but none of a table below this one."""
        listing = FolderListing.of(self._store.list())
        if not listing.objects:
            self._refuse_empty("", PROPERTIES_PATH)
        self.nested.update(listing.nested)
        return listing.objects

    def partitions(self) -> tuple[str, ...]:
        """The table's partitions, sorted, by a listing of the whole table."""
        return find_partitions(path for path, _ in self._list_data())

    def listing(
        self, partitions: Iterable[str] | None = None
    ) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """Names and sizes in bytes of all files, by partition.

        Without `partitions`: of everything that has partition metadata, in one recursive
        listing. Given `partitions` are listed whether they have any or not.
        """
        wanted = None if partitions is None else sorted(set(partitions))
        if wanted is not None and len(wanted) <= _PARTITION_LISTINGS_MAX:
            return {partition: self._list_partition(partition) for partition in wanted}
        files = list(self._list_data())
        if wanted is None:
            wanted = list(find_partitions(path for path, _ in files))
        found: dict[str, list[tuple[str, int]]] = {partition: [] for partition in wanted}
        for path, size_bytes in files:
            partition, name = split_path(path)
            if partition in found:
                found[partition].append((name, size_bytes))
        return {partition: tuple(names) for partition, names in found.items()}

    def base_files(self) -> tuple[BaseFile, ...]:
        """Every base file in the folder: uncommitted ones too, with partition metadata or not."""
        return tuple(item for item in self._list_data_files() if isinstance(item, BaseFile))

    def log_files(self) -> tuple[LogFile, ...]:
        """Every log file in the table's folder, likewise."""
        return tuple(item for item in self._list_data_files() if isinstance(item, LogFile))

    def view(
        self, timeline: ActiveTimeline, partitions: Iterable[str] | None = None
    ) -> FileSystemView:
        """The files that make up the table as `timeline` shows it.

        Raises CorruptTableError for a plan or a replacecommit that cannot be read.
        """
        return replace(
            self.read_view(timeline, partitions),
            pending_clustering=self._commits.planned_groups(
                timeline, Action.REPLACECOMMIT, Action.CLUSTERING
            ),
        )

    def read_view(
        self, timeline: ActiveTimeline, partitions: Iterable[str] | None = None
    ) -> FileSystemView:
        """The same for readers, without the file groups that pending clusterings hold.

        A clustering changes no row before it completes, so a broken plan of one stops no reader.
        Raises CorruptTableError for what readers need: plans of compactions and replacecommits.
        """
        wanted = None if partitions is None else tuple(partitions)
        listing = self._listed_in_metadata_table(wanted)
        return self.view_of(self.listing(wanted) if listing is None else listing, timeline)

    def view_of(
        self,
        listing: Listing,
        timeline: ActiveTimeline,
        replaced: Mapping[FileGroupId, InstantTime] | None = None,
    ) -> FileSystemView:
        """The same of files that were listed already. Raises as `read_view`.

        `replaced` are the file groups that were replaced, where no commit in the store says so yet.
        """
        return FileSystemView.build(
            listing,
            timeline,
            replaced=self._commits.replaced_groups(timeline) if replaced is None else replaced,
            pending_compaction=self._commits.planned_groups(timeline, Action.COMPACTION),
            slices=self._properties.layout.slices,
            archived=self._commits.archived_completion,
            sources=self.bootstrap_sources(),
        )

    def bootstrap_sources(self) -> Mapping[FileGroupId, SourceFile]:
        """What base files of a bootstrapped table take their columns from; read once.

        Raises CorruptTableError for an index that cannot be read.
        """
        if self._sources is None:
            is_one = self._properties.config.bootstrap_base_path is not None
            options = self._location.options
            self._sources = read_bootstrap_index(self._store, options) if is_one else {}
        return self._sources

    def _listed_in_metadata_table(self, partitions: Iterable[str] | None) -> Listing | None:
        """The files of all that is committed, where a metadata table is kept.

        The properties are read again: a process that switches it off does so before a commit that
        it lacks.
        """
        if not self._properties.config.keeps_metadata_table:
            return None
        if not self._properties.reload().keeps_metadata_table:
            return None
        return self._committed_files(partitions)

    def _list_partition(self, partition: str) -> tuple[tuple[str, int], ...]:
        listing = self._store.list_directory(partition)
        if not listing.objects and not listing.directories:
            known = f"{partition}/{PARTITION_METADATA}" if partition else PROPERTIES_PATH
            self._refuse_empty(partition, known)
        if partition and f"{partition}/{METADATA_DIRECTORY}" in listing.directories:
            self.nested[partition] = HUDI
        if root_around(partition, self.nested) is not None:
            return ()
        return tuple((split_path(info.path)[1], info.size_bytes) for info in listing.objects)

    def _refuse_empty(self, folder: str, known: str) -> None:
        """Raise StorageUnavailableError for an empty listing of a folder in which `known` lies:
        some clients of object stores take an answer of 200 with an error in its body for one, and
        what is not listed would be lost, or written twice."""
        if self._store.head(known) is not None:
            message = (
                "a listing is empty of a folder that has files: the store, or a proxy before it, "
                "answers listings with something else; try again"
            )
            raise StorageUnavailableError(message, table=self._store.uri, path=folder)

    def _list_data(self) -> Iterator[tuple[str, int]]:
        for info in self.objects():
            if not is_table_metadata(info.path):
                yield info.path, info.size_bytes

    def _list_data_files(self) -> Iterator[BaseFile | LogFile]:
        for path, size_bytes in self._list_data():
            data_file = parse_data_file(*split_path(path), size_bytes)
            if data_file is not None:
                yield data_file
