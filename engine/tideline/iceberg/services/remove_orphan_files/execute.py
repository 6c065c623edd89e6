"""Remove orphan files: files in the table's folder that no metadata leads to.

1. Collect what the newest metadata leads to: itself and the metadata files in its log, the version
   hint, statistics, and of every snapshot the manifest list, the manifests and their live files.
2. List the table's folder. Where another table's metadata lies in the table's own metadata folder,
   nothing is done (second_table.py). A file is an orphan when it is old enough, not collected and
   not left alone by the rules in plan.py. Files of commits under way are protected by their
   age alone.
   Folders outside it, such as one that `write.data.path` names, may be another table's as well, and
   no file shows whose it is: what would be an orphan there is counted and stays, unless the folder
   was asked for by name.
3. Before anything is deleted, read the metadata once more: what a commit has taken in since step 1
   is no orphan.
4. In local folders, also remove the temporary files of writers that died, which no listing shows.

Memory is a hash per file that metadata leads to, and the orphans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from tideline.clock import Clock, SystemClock
from tideline.errors import ConfigError, ConflictError, CorruptTableError, UnsupportedTableError
from tideline.iceberg.manifest.manifest_entry import ManifestFile
from tideline.iceberg.manifest.manifest_reading import WORKERS, in_parallel, manifests_of
from tideline.iceberg.metadata.data_locations import DATA_PATHS, DataLocations, table_context
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import METADATA_PATH
from tideline.iceberg.scan.manifests import read_ahead
from tideline.iceberg.services.file_place import FilePlaces
from tideline.iceberg.services.reachable_file import live_files, statistics_files
from tideline.iceberg.services.remove_orphan_files.plan import (
    FileUri,
    HiddenPaths,
    OrphanFile,
    OrphanOptions,
    OrphanPlan,
    PrefixMismatch,
    ReachablePaths,
    SharedFolder,
    UriRules,
    metadata_folder,
)
from tideline.iceberg.services.remove_orphan_files.second_table import (
    UnloggedMetadata,
    refuse_second_table,
)
from tideline.iceberg.services.table_setting import refuse_without_gc
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import Loaded, TableOperations
from tideline.iceberg.table.table_roots import TableRoots
from tideline.services.benefit import Benefit
from tideline.services.report import ServiceReport
from tideline.storage.local.unfinished_files import remove_unfinished_below
from tideline.storage.named_places import normalised
from tideline.storage.nested_tables import CONTROL_FOLDER
from tideline.storage.table_around import table_around
from tideline.wording import counted

_BATCH_FILES = 1000
_CONFLICTS_NAMED_MAX = 3
_ORPHANS_NAMED = 1_000
_CONTROL = f"/{CONTROL_FOLDER}/"


@dataclass(frozen=True, slots=True)
class OrphanRun:
    """What was deleted of a plan, nothing by one that `is_dry`; `saved` are planned files that a
    commit has taken in since."""

    plan: OrphanPlan
    deleted: tuple[OrphanFile, ...] = ()
    saved: tuple[OrphanFile, ...] = ()
    is_dry: bool = False

    @property
    def files(self) -> tuple[OrphanFile, ...]:
        """What was deleted, or would be."""
        return self.plan.orphans if self.is_dry else self.deleted

    @property
    def size_bytes(self) -> int:
        """The bytes of these files."""
        return sum(file.size_bytes for file in self.files)

    def report(self) -> ServiceReport:
        """What was done, summed up."""
        if self.is_dry:
            found = f"{counted(len(self.files), 'orphan file')} of {self.size_bytes:,}"
            words = f"found {found} bytes that could be deleted{self.plan.shared_words}"
            return ServiceReport(words)
        again = f", {len(self.saved):,} are used again" if self.saved else ""
        deleted = counted(len(self.deleted), "orphan file")
        return ServiceReport(
            f"deleted {deleted}{again}{self.plan.shared_words}",
            files_deleted=len(self.deleted),
            bytes_deleted=self.size_bytes,
            benefit=Benefit(bytes_stored=self.size_bytes),
        )

    def to_json_object(self) -> dict[str, Any]:
        """What was found or deleted, for machines."""
        return {"orphans": [file.location for file in self.files[:_ORPHANS_NAMED]]}


def plan_orphans(
    operations: TableOperations, options: OrphanOptions, *, clock: Clock | None = None
) -> OrphanPlan:
    """Find the orphans and change nothing.

    Raises ConfigError for a table whose files are shared, for a folder that is not this table's
    alone, for too young a cutoff and for mismatched prefixes; UnsupportedTableError where a Hudi
    table or another Iceberg table shares the folder; CorruptTableError, ObjectNotFoundError and
    StorageUnavailableError.
    """
    loaded = operations.load()
    refuse_without_gc(loaded.metadata)
    _refuse_table_around(operations.io, options)
    cutoff_ms = options.cutoff_ms((clock or SystemClock()).now_ms())
    search = _Search.of(operations.io, loaded, options)
    search.collect(loaded)
    orphans = search.orphans(cutoff_ms)
    shared = search.shared(cutoff_ms)
    return OrphanPlan(
        table_uuid=loaded.metadata.table_uuid,
        snapshot_ids=frozenset(snapshot.snapshot_id for snapshot in loaded.metadata.snapshots),
        options=options,
        cutoff_ms=cutoff_ms,
        locations=search.locations,
        orphans=orphans,
        left_alone=dict(sorted(search.left_alone.items())),
        shared=shared,
    )


def execute_orphans(operations: TableOperations, plan: OrphanPlan) -> OrphanRun:
    """Delete what was planned and is still an orphan, and what dead writers left unfinished.

    Raises ConflictError when the table was replaced by another since, and what `plan_orphans`
    raises; a second run continues where a failure ended the first.
    """
    loaded = operations.load()
    refuse_without_gc(loaded.metadata)
    _refuse_table_around(operations.io, plan.options)
    if loaded.metadata.table_uuid != plan.table_uuid:
        message = "the orphans were planned for another table at this place"
        raise ConflictError(
            message, table=loaded.metadata.location, value=loaded.metadata.table_uuid
        )
    search = _Search.of(operations.io, loaded, plan.options)
    if plan.orphans:
        search.collect(loaded, known=plan.snapshot_ids)
    deleted: list[OrphanFile] = []
    saved: list[OrphanFile] = []
    for orphan in plan.orphans:
        (saved if search.is_reachable(orphan.location) else deleted).append(orphan)
    roots = TableRoots.below(search.io, search.locations)
    remaining = iter(deleted)
    while batch := list(islice(remaining, _BATCH_FILES)):
        roots.remove_many(
            (orphan_file.location for orphan_file in batch), "the removal of orphan files"
        )
    for location in search.locations:
        remove_unfinished_below(*search.io.place(location), plan.cutoff_ms)
    return OrphanRun(plan, tuple(deleted), tuple(saved))


@dataclass(slots=True)
class _Search:
    io: FileIO
    metadata: TableMetadata
    places: FilePlaces
    rules: UriRules
    options: OrphanOptions
    locations: tuple[str, ...]
    reachable: ReachablePaths = field(default_factory=ReachablePaths)
    left_alone: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, io: FileIO, loaded: Loaded, options: OrphanOptions) -> _Search:
        metadata, places = loaded.metadata, FilePlaces(io)
        locations = _locations(metadata, options, places)
        rules = UriRules.of(options)
        # Folders that the caller names may be searched, wherever they are.
        named = (path for path in map(normalised, options.locations) if "://" in path)
        return cls(io.also_at(named), metadata, places, rules, options, locations)

    def collect(self, loaded: Loaded, known: frozenset[int] = frozenset()) -> None:
        """Everything reachable, but not what is in manifests that the snapshots `known` list."""
        metadata = loaded.metadata
        self._add(loaded.metadata_location)
        self._add(f"{metadata.location}/metadata/version-hint.text")
        for entry in metadata.metadata_log:
            self._add(entry.metadata_file)
        for file in statistics_files(metadata):
            self._add(file.location)
        old = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id in known]
        new = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in known]
        seen = {place for place, _ in self._manifests(old)}
        unread = (
            manifest_file for place, manifest_file in self._manifests(new) if _is_first(place, seen)
        )
        for manifest, body in read_ahead(self.io, unread):
            for file in live_files(body, path=manifest.path):
                self._add(file.location)

    def orphans(self, cutoff_ms: int) -> tuple[OrphanFile, ...]:
        """Every orphan below the locations. Raises ConfigError for mismatched prefixes, and
        UnsupportedTableError where another table lies in the same folder."""
        found: list[OrphanFile] = []
        unlogged: list[UnloggedMetadata] = []
        strangers: set[str] = set()
        conflicts: set[str] = set()
        own = self._own_metadata_folders()
        for location in self.locations:
            rules = _FolderRules.of(location, self.metadata, self.places)
            for uri, info in self.io.list(location):
                place = self.places.of(uri)
                folder = metadata_folder(place)
                if folder in own and not self.is_reachable(uri):
                    unlogged.append(UnloggedMetadata(uri, info.modified_ms))
                elif folder is not None and folder not in own:
                    strangers.add(f"{folder.removesuffix('/metadata')}/")
                if (below := uri[len(location) :].find(_CONTROL)) >= 0:
                    self._refuse_hudi_table(location, below)
                    strangers.add(f"{self.places.of(uri[: len(location) + below])}/")
                reason = "young" if info.modified_ms >= cutoff_ms else rules.reason(uri, place)
                reason = reason or self._use(place, conflicts)
                if reason is None:
                    found.append(OrphanFile(uri, info.size_bytes, info.modified_ms))
                else:
                    self.left_alone[reason] += 1
        refuse_second_table(self.io, self.metadata, unlogged, self.options.dropped_tables)
        if conflicts and self.options.prefix_mismatch is PrefixMismatch.ERROR:
            message = (
                "metadata names listed files with another scheme or authority; name those that are "
                "equal with equal_schemes and equal_authorities, or choose a prefix_mismatch_mode"
            )
            named = "; ".join(sorted(conflicts)[:_CONFLICTS_NAMED_MAX])
            raise ConfigError(message, table=self.metadata.location, value=named)
        return self._without_strangers(found, tuple(strangers))

    def shared(self, cutoff_ms: int) -> tuple[SharedFolder, ...]:
        """What nothing leads to in the folders of the table's data that may be others' as well;
        nothing where the caller has named folders."""
        found = []
        for location in () if self.options.locations else self._folders_outside():
            rules = _FolderRules.of(location, self.metadata, self.places)
            files = size_bytes = 0
            for uri, info in self.io.list(location):
                place = self.places.of(uri)
                is_old = info.modified_ms < cutoff_ms and rules.reason(uri, place) is None
                if is_old and not self.is_reachable(uri):
                    files += 1
                    size_bytes += info.size_bytes
            found.append(SharedFolder(location, files, size_bytes))
        return tuple(found)

    def _folders_outside(self) -> Iterator[str]:
        """Where the table's properties put data files outside of its folder, as far as that is read
        and is this table's own and not the original's of a copy."""
        seen = {f"{self.places.of(location)}/" for location in self.locations}
        for name in DATA_PATHS:
            location = self.metadata.properties.get(name, "").rstrip("/")
            if not location:
                continue
            try:
                place = f"{self.places.of(location)}/"
                self.io.placed(location)
            except (CorruptTableError, UnsupportedTableError):
                continue
            is_around = f"{self.places.of(self.metadata.location)}/".startswith(place)
            is_known = is_around or place.startswith(tuple(seen))
            if self.places.is_own(place) and not is_known:
                seen.add(place)
                yield location

    def _refuse_hudi_table(self, location: str, below: int) -> None:
        """Raise UnsupportedTableError when the folder itself is a Hudi table's as well."""
        if below == 0:
            raise UnsupportedTableError(
                "a Hudi table lies in the same folder, and all that it alone knows would count as "
                "orphans: its own cleaning removes what it does not need",
                table=self.metadata.location,
                path=location,
            )

    def is_reachable(self, location: str) -> bool:
        """Whether metadata leads to a file."""
        return self._use(self.places.of(location), set()) is not None

    def _use(self, place: str, conflicts: set[str]) -> str | None:
        """How metadata leads to a file, None when it does not."""
        file = self.rules.parse(place)
        if not self.reachable.is_known(file.path):
            file = self.rules.parse(self.places.real(place))
        if not self.reachable.is_known(file.path):
            return None
        mismatch = self.reachable.mismatch(file)
        if mismatch is None:
            return "referenced"
        if self.options.prefix_mismatch is PrefixMismatch.DELETE:
            return None
        conflicts.add(mismatch)
        return "mismatched"

    def _without_strangers(
        self, found: list[OrphanFile], strangers: tuple[str, ...]
    ) -> tuple[OrphanFile, ...]:
        kept = tuple(
            orphan_file
            for orphan_file in found
            if not self.places.of(orphan_file.location).startswith(strangers)
        )
        if len(kept) < len(found):
            self.left_alone["of other tables"] += len(found) - len(kept)
        return kept

    def _add(self, location: str) -> None:
        place = self.places.of(location)
        file = self.rules.parse(place)
        if location.startswith("/") and not self.places.is_below_table(place):
            file = FileUri(None, None, file.path)
        self.reachable.add(file)
        if (real := self.places.real(place)) != place:
            # A listing shows what a link leads to, or was asked for by another link.
            self.reachable.add(self.rules.parse(real))

    def _manifests(self, snapshots: list[Snapshot]) -> Iterator[tuple[str, ManifestFile]]:
        for start in range(0, len(snapshots), WORKERS):
            chunk = snapshots[start : start + WORKERS]
            listed = in_parallel(lambda snapshot: manifests_of(self.io, snapshot), chunk)
            for snapshot, manifests in zip(chunk, listed, strict=True):
                if snapshot.manifest_list is not None:
                    self._add(snapshot.manifest_list)
                for manifest in manifests:
                    self._add(manifest.path)
                    yield self.places.of(manifest.path), manifest

    def _own_metadata_folders(self) -> set[str]:
        metadata = self.metadata
        folders = {f"{metadata.location}/metadata"}
        folders.update(entry.metadata_file.rpartition("/")[0] for entry in metadata.metadata_log)
        if path := metadata.properties.get(METADATA_PATH):
            folders.add(path.rstrip("/"))
        return {self.places.of(folder) for folder in folders}


def _refuse_table_around(io: FileIO, options: OrphanOptions) -> None:
    """Raise UnsupportedTableError for a table in the folder of another, unless folders of it are
    named: what the other one alone knows would count as orphans."""
    around = None if options.locations else table_around(io.location, io.store_at, itself=False)
    if around is not None:
        message = (
            f"the table lies inside {around}, whose files would count as orphans: name the folders "
            "to search, or move one of the two"
        )
        raise UnsupportedTableError(message, table=io.location.uri)


def _locations(
    metadata: TableMetadata, options: OrphanOptions, places: FilePlaces
) -> tuple[str, ...]:
    """The folders to list, none below another."""
    wanted = options.locations or (metadata.location,)
    table = f"{places.of(metadata.location)}/"
    chosen: dict[str, str] = {}
    for location in dict.fromkeys(path.rstrip("/") for path in wanted):
        place = f"{places.of(location)}/"
        if table.startswith(place) and table != place:
            message = "a folder around the table's own may hold other tables: name one below it"
            raise ConfigError(message, table=metadata.location, path=location)
        if not places.is_own(place):
            continue
        if not place.startswith(tuple(chosen)):
            chosen = {name: uri for name, uri in chosen.items() if not name.startswith(place)}
            chosen[place] = location
    return tuple(chosen.values())


@dataclass(frozen=True, slots=True)
class _FolderRules:
    """What is left alone in one folder; `context` is what paths of this table contain when object
    storage layouts of several tables share it."""

    cut: int
    hidden: HiddenPaths
    context: str

    @classmethod
    def of(cls, location: str, metadata: TableMetadata, places: FilePlaces) -> _FolderRules:
        layout = DataLocations.of(metadata)
        is_shared = layout.is_spread and not places.is_below_table(f"{places.of(location)}/")
        context = f"/{table_context(metadata.location)}/" if is_shared else ""
        return cls(len(location) + 1, HiddenPaths.of(metadata.partition_specs), context)

    def reason(self, uri: str, place: str) -> str | None:
        """Why a file is left alone, None when it is not."""
        if uri.endswith("/"):
            return "folders"
        if self.context not in place:
            return "of other tables"
        return "hidden" if self.hidden.hides(uri[self.cut :]) else None


def _is_first(place: str, seen: set[str]) -> bool:
    if place in seen:
        return False
    seen.add(place)
    return True
