"""The manifests of a snapshot, and reading many of them without waiting for each in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.iceberg.manifest.manifest_entry import ManifestFile
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.table.file_io import FileIO

READS_AHEAD = 8
READS_AHEAD_BYTES = 32 * 1024 * 1024
"""Together, by what the list says of them."""


def snapshot_manifests(io: FileIO, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
    """All manifests of a snapshot, none when there is no snapshot.

    Raises CorruptTableError when one that the table cannot be read without is missing or
    unreadable.
    """
    try:
        return manifests_of(io, snapshot)
    except ObjectNotFoundError as error:
        raise _missing(io, error.path or (snapshot and snapshot.manifest_list)) from error


def read_ahead(
    io: FileIO, manifests: Iterable[ManifestFile]
) -> Iterator[tuple[ManifestFile, bytes]]:
    """Every manifest with its bytes, in order; a few are fetched while one is worked on."""
    waiting: deque[tuple[ManifestFile, Future[bytes]]] = deque()
    with ThreadPoolExecutor(READS_AHEAD, thread_name_prefix="manifest") as pool:
        try:
            for manifest in manifests:
                # In a context like the caller's, which the limits on reading belong to.
                reading = pool.submit(copy_context().run, _read, io, manifest.path)
                waiting.append((manifest, reading))
                ahead_bytes = sum(manifest_file.length_bytes for manifest_file, _ in waiting)
                if len(waiting) > READS_AHEAD or ahead_bytes > READS_AHEAD_BYTES:
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
    except ObjectNotFoundError as error:
        raise _missing(io, path) from error


def _missing(io: FileIO, path: object) -> CorruptTableError:
    message = "a file that the table's metadata names is missing"
    return CorruptTableError(message, table=io.location.uri, path=path)
