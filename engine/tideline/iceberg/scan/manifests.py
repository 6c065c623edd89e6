"""The manifests of a snapshot, and reading many of them without waiting for each in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from tideline.errors import CorruptTable, ObjectNotFound
from tideline.formats.avro_container import open_container
from tideline.iceberg.file_io import FileIO
from tideline.iceberg.manifest import ManifestContent, ManifestFile
from tideline.iceberg.manifest_list import read_manifest_list
from tideline.iceberg.snapshot import Snapshot

READS_AHEAD = 8


def snapshot_manifests(io: FileIO, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """All manifests of a snapshot, as its list names them.

    Old version 1 tables have no list, only locations; what a list would say is then unknown.
    Raises CorruptTable when the list is missing or unreadable.
    """
    if snapshot.manifest_list is None:
        return tuple(_listed_nowhere(io, path, snapshot) for path in snapshot.manifests)
    body = read_metadata_file(io, snapshot.manifest_list)
    return read_manifest_list(body, path=snapshot.manifest_list)


def read_ahead(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> Iterator[tuple[ManifestFile, bytes]]:
    """Every manifest with its bytes, in order; a few are fetched while one is worked on."""
    waiting: deque[tuple[ManifestFile, Future[bytes]]] = deque()
    with ThreadPoolExecutor(READS_AHEAD, thread_name_prefix="manifest") as pool:
        try:
            for manifest in manifests:
                waiting.append((manifest, pool.submit(read_metadata_file, io, manifest.path)))
                if len(waiting) > READS_AHEAD:
                    oldest, body = waiting.popleft()
                    yield oldest, body.result()
            while waiting:
                oldest, body = waiting.popleft()
                yield oldest, body.result()
        finally:
            for _, body in waiting:
                body.cancel()


def read_metadata_file(io: FileIO, path: str) -> bytes:
    """A file that the table cannot be read without. Raises CorruptTable when it is missing."""
    try:
        return io.read(path)
    except ObjectNotFound as error:
        message = "A file that the table's metadata names is missing"
        raise CorruptTable(message, table=io.location.uri, path=path) from error


def _listed_nowhere(io: FileIO, path: str, snapshot: Snapshot) -> ManifestFile:
    body = read_metadata_file(io, path)
    header = open_container(body, path=path).metadata
    return ManifestFile(
        path=path,
        length_bytes=len(body),
        spec_id=int(header.get("partition-spec-id", 0)),
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=snapshot.snapshot_id,
    )
