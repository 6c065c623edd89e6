"""Files by the locations that table metadata records.

1. A location below the table's recorded one is read below the place the table was opened at, so
   that a table which was moved or copied can be read where it is.
2. Any other absolute location is taken at its word, with the table's storage options; `s3a` and
   `s3n` are S3, a plain path and `file:/path` are the local folder.
3. A relative location, as some writers leave behind, is taken from the table's folder on, which
   its path must name.

A FileIO is a value: it is pickled into Spark tasks and opens its stores there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tideline.errors import CorruptTableError
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo, ObjectStore


@dataclass(frozen=True)
class FileIO:
    """Access to all files of one table; `recorded` is `location` in its metadata."""

    location: StoreLocation
    recorded: str
    _stores: dict[StoreLocation, ObjectStore] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __reduce__(self) -> tuple[Any, ...]:
        return FileIO, (self.location, self.recorded)

    def read(self, uri: str) -> bytes:
        """The whole file. Raises ObjectNotFoundError."""
        store, path = self.place(uri)
        return store.get(path)

    def open_reader(self, uri: str) -> BinaryIO:
        """A seekable stream over the file. Raises ObjectNotFoundError."""
        store, path = self.place(uri)
        return store.open_reader(path)

    def open_writer(self, uri: str) -> AbstractContextManager[BinaryIO]:
        """A stream into a new file, complete when the `with` block ends."""
        store, path = self.place(uri)
        return store.open_writer(path)

    def local_path(self, uri: str) -> str | None:
        """The native path of a file in a local folder, else None."""
        store, path = self.place(uri)
        return store.local_path(path)

    def write(self, uri: str, body: bytes) -> None:
        """Store a new file, whose name is this writer's own (it holds a UUID)."""
        store, path = self.place(uri)
        store.put(path, body)

    def size_bytes(self, uri: str) -> int | None:
        """The file's size, None when it is not there."""
        store, path = self.place(uri)
        info = store.head(path)
        return None if info is None else info.size_bytes

    def list(self, uri: str) -> Iterator[tuple[str, ObjectInfo]]:
        """Every file below a folder, with the location as this table would record it."""
        store, path = self.place(uri)
        folder = uri.rstrip("/")
        cut = len(path) + 1 if path else 0
        for info in store.list(path):
            yield f"{folder}/{info.path[cut:]}", info

    def remove_written(self, uris: Iterable[str]) -> None:
        """Remove files that this process wrote under names of its own (they hold a UUID).

        For what metadata names there is `TableRoots`.
        """
        paths: dict[StoreLocation, list[str]] = defaultdict(list)
        for uri in uris:
            root, path = self.placed(uri)
            paths[root].append(path)
        for root, listed in paths.items():
            DeleteScope(self.store_at(root), "taking back new files").remove_many(listed)

    def place(self, uri: str) -> tuple[ObjectStore, str]:
        """The store and the path in it.

        Raises CorruptTableError for what is no absolute location.
        """
        root, path = self.placed(uri)
        return self.store_at(root), path

    def actual_uri(self, uri: str) -> str:
        """Where the file really is, as `file:///...` or `s3://...`."""
        root, path = self.placed(uri)
        return f"{root.uri.removesuffix('/')}/{path}" if path else root.uri

    def placed(self, uri: str) -> tuple[StoreLocation, str]:
        """Where a file is: a store's location, the table's own if it is below that, and the path.

        Raises CorruptTableError for what is no absolute location.
        """
        plain, recorded = normalised(uri), normalised(self.recorded)
        if plain == recorded:
            return self.location, ""
        if plain.startswith(f"{recorded}/"):
            return self.location, plain[len(recorded) + 1 :]
        scheme, separator, rest = plain.partition("://")
        if not separator:
            return self.location, self._below_table(plain)
        if scheme == "file":
            return StoreLocation("file:///"), rest.lstrip("/")
        bucket, _, path = rest.partition("/")
        options = self.location.options if scheme == self.location.scheme else ()
        return StoreLocation(f"{scheme}://{bucket}", options), path

    def _below_table(self, relative: str) -> str:
        for place in (self.recorded, self.location.uri):
            name = place.rstrip("/").rpartition("/")[2]
            _, found, rest = f"/{relative}".partition(f"/{name}/")
            if found:
                return rest
        message = "a location in the metadata is relative, and does not name the table's folder"
        raise CorruptTableError(message, table=self.location.uri, path=relative)

    def store_at(self, root: StoreLocation) -> ObjectStore:
        """The store of a location that `placed` gave, opened once."""
        if root not in self._stores:
            self._stores[root] = root.open()
        return self._stores[root]


def normalised(uri: str) -> str:
    """One spelling per place: `s3://bucket/path`, `file:///path`, no trailing slash.

    A location without a scheme that is not absolute stays as it is.
    """
    scheme, separator, rest = uri.partition(":")
    if not separator or "/" in scheme:
        scheme, rest = ("file", uri) if uri.startswith("/") else ("", uri)
    match scheme.lower():
        case "":
            return uri.rstrip("/")
        case "file":
            return "file:///" + "/".join(part for part in rest.split("/") if part)
        case "s3" | "s3a" | "s3n":
            return "s3://" + rest.lstrip("/").rstrip("/")
    return f"{scheme.lower()}:{rest}".rstrip("/")
