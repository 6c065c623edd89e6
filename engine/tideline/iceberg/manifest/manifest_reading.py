"""The manifests of a snapshot and their entries, fetched from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from tideline.bounded.parsing import faults_named
from tideline.formats.avro_container import open_container
from tideline.iceberg.manifest.fixed_partitions import manifest_records
from tideline.iceberg.manifest.manifest_entry import (
    EntryStatus,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from tideline.iceberg.manifest.manifest_file import read_manifest
from tideline.iceberg.manifest.manifest_list import read_manifest_list
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.table.file_io import FileIO

WORKERS = 8
"""Manifests fetched concurrently."""

_STATUS, _DATA_FILE, _FILE_PATH = 0, 2, 100

_T = TypeVar("_T")
_R = TypeVar("_R")


def manifests_of(io: FileIO, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, none when there is no snapshot.

    Raises ObjectNotFoundError, CorruptTableError and StorageUnavailableError.
    """
    if snapshot is None:
        return ()
    if snapshot.manifest_list is not None:
        return read_manifest_list(io.read(snapshot.manifest_list), path=snapshot.manifest_list)
    return tuple(in_parallel(lambda path: _unlisted(io, path, snapshot), snapshot.manifests))


def entries_of(
    io: FileIO, manifest: ManifestFile, *, with_metrics: bool = True, live_only: bool = False
) -> Iterator[ManifestEntry]:
    """The entries of a manifest, inherited values filled in. Raises as `manifests_of` does."""
    body = io.read(manifest.path)
    return read_manifest(body, manifest, with_metrics=with_metrics, live_only=live_only)


def live_paths(io: FileIO, manifest: ManifestFile) -> Iterator[str]:
    """The locations of a manifest's live files: all else is skipped unread, which is much faster.

    Raises as `manifests_of` does.
    """
    container = open_container(io.read(manifest.path), path=manifest.path)
    message = "a manifest lacks fields that the specification requires"
    with faults_named(message, path=manifest.path):
        names = {field["field-id"]: field for field in container.schema["fields"]}
        status, file = names[_STATUS]["name"], names[_DATA_FILE]
        fields = file["type"]["fields"]
        path = next(field["name"] for field in fields if field["field-id"] == _FILE_PATH)
        wanted = (_STATUS, _DATA_FILE, _FILE_PATH)
        for record in manifest_records(container, lambda field: field.get("field-id") in wanted):
            if record[status] != EntryStatus.DELETED:
                yield record[file["name"]][path]


def in_parallel(work: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """`work` of every item, in order, a few at a time; the first exception is raised."""
    listed = list(items)
    if len(listed) < 2:
        return [work(item) for item in listed]
    with ThreadPoolExecutor(min(WORKERS, len(listed))) as pool:
        # Each in a context like the caller's, which the limits on reading belong to.
        futures = [pool.submit(copy_context().run, work, item) for item in listed]
        return [future.result() for future in futures]


def _unlisted(io: FileIO, path: str, snapshot: Snapshot) -> ManifestFile:
    """A manifest that old version 1 metadata names without a list: its own header has the rest.

    Its files count as added by the snapshot at hand unless they name another one, as they must.
    """
    body = io.read(path)
    header = open_container(body, path=path).metadata
    with faults_named("a manifest's header is not understood", path=path):
        spec_id = int(header.get("partition-spec-id", "0"))
    return ManifestFile(
        path=path,
        length_bytes=len(body),
        spec_id=spec_id,
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=snapshot.snapshot_id,
    )
