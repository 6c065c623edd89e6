"""The files that only expired snapshots lead to.

1. Manifests of expired snapshots that no remaining snapshot lists are candidates. So are the live
   files in them: a file that such a manifest lists as deleted is live in another one, or was
   expired before.
2. The remaining snapshots' manifests are read, and what is live in them is no candidate. When one
   cannot be read, the search fails: nothing is known to be unreachable then.
3. What is left goes in the order data and delete files, manifests, lists, statistics, so that a
   list is there as long as something is to be found through it.

Memory is bounded: with many candidates, step 2 is done for one share of them after the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar
from zlib import crc32

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.iceberg.manifest.manifest_entry import ManifestFile
from tideline.iceberg.manifest.manifest_reading import WORKERS, in_parallel, manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.scan.manifests import read_ahead
from tideline.iceberg.services.file_place import FilePlaces
from tideline.iceberg.services.reachable_file import (
    CONTENT_KINDS,
    FileKind,
    ReachableFile,
    live_files,
    statistics_files,
)
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import metadata_file_location
from tideline.iceberg.table.table_roots import TableRoots
from tideline.storage.nested_tables import is_table_metadata_file

CANDIDATES_MAX = 250_000
LEFT_NAMED_MAX = 100
_ENTRY_BYTES_MIN = 40
"""A manifest without counts holds at most its length through this many files."""


@dataclass(slots=True)
class ExpiredFiles:
    """The search. `unreadable` collects expired metadata that was gone already, so that what it
    led to is left for the removal of orphan files; `left_alone` are files that are not this
    table's to delete, with the reason, up to a number of them, and `foreign_count` how many."""

    io: FileIO
    candidates_max: int = CANDIDATES_MAX
    unreadable: list[str] = field(default_factory=list)
    left_alone: dict[str, str] = field(default_factory=dict)
    foreign_count: int = 0

    def find(
        self, expired: Sequence[Snapshot], before: TableMetadata, after: TableMetadata
    ) -> Iterator[ReachableFile]:
        """Files that `expired`, snapshots of `before`, led to and no snapshot of `after` does.

        Raises CorruptTableError, ObjectNotFoundError and StorageUnavailableError.
        """
        places = FilePlaces(self.io)
        kept = self._by_place(after.snapshots, places)
        candidates = self._by_place(expired, places, may_miss=True)
        for place in kept.keys() & candidates.keys():
            del candidates[place]
        lists_kept = {
            places.of(snapshot.manifest_list)
            for snapshot in after.snapshots
            if snapshot.manifest_list
        }
        standing = lists_kept | kept.keys()
        standing |= {
            places.of(statistics_file.location) for statistics_file in statistics_files(after)
        }
        found = (
            self._content(candidates, kept, places),
            (ReachableFile(FileKind.MANIFEST, m.path, m.length_bytes) for m in candidates.values()),
            (
                ReachableFile(FileKind.MANIFEST_LIST, snapshot.manifest_list)
                for snapshot in expired
                if snapshot.manifest_list and places.of(snapshot.manifest_list) not in lists_kept
            ),
            _expired_statistics(before, after, places),
        )
        rules = _OwnFiles.of(self.io, before, after, standing)
        for files in found:
            for file in files:
                reason = rules.refusal(file, places)
                if reason is None:
                    yield file
                    continue
                self.foreign_count += 1
                if len(self.left_alone) < LEFT_NAMED_MAX:
                    self.left_alone[file.location] = reason

    def _by_place(
        self, snapshots: Iterable[Snapshot], places: FilePlaces, *, may_miss: bool = False
    ) -> dict[str, ManifestFile]:
        def manifests(snapshot: Snapshot) -> tuple[ManifestFile, ...]:
            try:
                return manifests_of(self.io, snapshot)
            except ObjectNotFoundError:
                if not may_miss:
                    raise
                self.unreadable.append(snapshot.manifest_list or str(snapshot.snapshot_id))
                return ()

        found: dict[str, ManifestFile] = {}
        for chunk in _chunks(list(snapshots), WORKERS):
            for listed in in_parallel(manifests, chunk):
                found.update(
                    (places.of(manifest_file.path), manifest_file) for manifest_file in listed
                )
        return found

    def _content(
        self,
        candidates: Mapping[str, ManifestFile],
        kept: Mapping[str, ManifestFile],
        places: FilePlaces,
    ) -> Iterator[ReachableFile]:
        readable = [candidate for candidate in candidates.values() if candidate.may_have_live_files]
        # Data files and delete files are in manifests of their own kind alone.
        contents = {manifest_file.content for manifest_file in readable}
        rivals = [
            manifest_file
            for manifest_file in kept.values()
            if manifest_file.content in contents and manifest_file.may_have_live_files
        ]
        shares = max(1, math.ceil(sum(map(_count_max, readable)) / self.candidates_max))
        for share in range(shares):
            live: dict[str, ReachableFile] = {}
            for place, file in self._placed(readable, places):
                if crc32(place.encode()) % shares == share:
                    live[place] = file
            for manifest, body in read_ahead(self.io, rivals if live else ()):
                for file in live_files(body, path=manifest.path):
                    live.pop(places.of(file.location), None)
                if not live:
                    break
            yield from live.values()

    def _placed(
        self, manifests: Sequence[ManifestFile], places: FilePlaces
    ) -> Iterator[tuple[str, ReachableFile]]:
        for chunk in _chunks(manifests, WORKERS):
            for manifest, body in zip(chunk, in_parallel(self._body, chunk), strict=True):
                if body is not None:
                    for file in live_files(body, path=manifest.path):
                        yield places.of(file.location), file
                elif manifest.path not in self.unreadable:
                    self.unreadable.append(manifest.path)

    def _body(self, manifest: ManifestFile) -> bytes | None:
        try:
            return self.io.read(manifest.path)
        except ObjectNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class _OwnFiles:
    """Which of the files that metadata names are this table's to delete.

    Manifests, lists and statistics are only where the table keeps its metadata, and data files only
    elsewhere; so no entry of one kind reaches a file of the other. `standing` are the places of
    metadata that is in use.
    """

    roots: TableRoots
    metadata_folders: tuple[str, ...]
    standing: Set[str]

    @classmethod
    def of(
        cls, io: FileIO, before: TableMetadata, after: TableMetadata, standing: Set[str]
    ) -> _OwnFiles:
        folders = {f"{before.location}/metadata/", metadata_file_location(before, "")}
        places = tuple(f"{io.actual_uri(folder).rstrip('/')}/" for folder in sorted(folders))
        return cls(TableRoots.of(io, after), places, standing)

    def refusal(self, file: ReachableFile, places: FilePlaces) -> str | None:
        """Why a file is left; None when it may be deleted."""
        try:
            place = places.of(file.location)
        except CorruptTableError as error:
            return error.message
        refused = self.roots.refusal(file.location)
        if refused is not None:
            return refused
        if place in self.standing:
            return "metadata that is in use leads to it"
        is_metadata = place.startswith(self.metadata_folders)
        if is_table_metadata_file(place) or is_metadata == (file.kind in CONTENT_KINDS):
            kept = "a metadata folder" if is_metadata else "no metadata folder"
            return f"it is in {kept}, where the table keeps no {file.kind.value.replace('_', ' ')}"
        return None


def _expired_statistics(
    before: TableMetadata, after: TableMetadata, places: FilePlaces
) -> Iterator[ReachableFile]:
    used = {places.of(file.location) for file in statistics_files(after)}
    for file in statistics_files(before):
        if places.of(file.location) not in used:
            yield file


def _count_max(manifest: ManifestFile) -> int:
    counts = manifest.added_files_count, manifest.existing_files_count
    if None in counts:
        return manifest.length_bytes // _ENTRY_BYTES_MIN + 1
    return sum(count for count in counts if count is not None)


_T = TypeVar("_T")


def _chunks(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
