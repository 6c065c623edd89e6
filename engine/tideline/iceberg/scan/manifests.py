"""The manifests of a snapshot, and reading many of them without waiting for each in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from tideline.errors import CorruptTable, ObjectNotFound
from tideline.iceberg.commit.manifest_reading import manifests_of
from tideline.iceberg.file_io import FileIO
from tideline.iceberg.manifest import ManifestFile
from tideline.iceberg.snapshot import Snapshot

READS_AHEAD = 8


def snapshot_manifests(io: FileIO, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
    """All manifests of a snapshot, none when there is no snapshot.

    Raises CorruptTable when one that the table cannot be read without is missing or unreadable.
    """
    try:
        return manifests_of(io, snapshot)
    except ObjectNotFound as error:
        raise _missing(io, error.path or (snapshot and snapshot.manifest_list)) from error


def read_ahead(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> Iterator[tuple[ManifestFile, bytes]]:
    """Every manifest with its bytes, in order; a few are fetched while one is worked on."""
    waiting: deque[tuple[ManifestFile, Future[bytes]]] = deque()
    with ThreadPoolExecutor(READS_AHEAD, thread_name_prefix="manifest") as pool:
        try:
            for manifest in manifests:
                waiting.append((manifest, pool.submit(_read, io, manifest.path)))
                if len(waiting) > READS_AHEAD:
                    oldest, body = waiting.popleft()
                    yield oldest, body.result()
            while waiting:
                oldest, body = waiting.popleft()
                yield oldest, body.result()
        finally:
            for _, body in waiting:
                body.cancel()


def _read(io: FileIO, path: str) -> bytes:
    try:
        return io.read(path)
    except ObjectNotFound as error:
        raise _missing(io, path) from error


def _missing(io: FileIO, path: object) -> CorruptTable:
    message = "A file that the table's metadata names is missing"
    return CorruptTable(message, table=io.location.uri, path=path)
