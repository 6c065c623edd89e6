"""Files by the locations that table metadata records.

1. A location below the table's recorded one is read below the place the table was opened at, so
   that a table which was moved or copied can be read where it is.
2. Any other absolute location is read only where `NamedPlaces` admits it, with the table's storage
   options and credentials; `s3a` and `s3n` are S3, a plain path and `file:/path` are the local
   folder.
3. A relative location, as some writers leave behind, is taken from the table's folder on, which
   its path must name.

A FileIO is a value: it is pickled into Spark tasks and opens its stores there. What was declared
where it was made holds there, too. With what a catalog vends, stores are opened by that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Protocol

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.table.s3_properties import NO_BARS, Bars
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.local.regular_file import native_file
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import (
    NamedPlaces,
    checked_place,
    declared_places,
    normalised,
    not_named,
)
from tideline.storage.object_store import ObjectInfo, ObjectStore
from tideline.storage.remote.store import RemoteStore
from tideline.storage.store_kind import bucket_and_prefix


class Access(Protocol):
    """What a catalog vends to reach the files of its table on S3. Pickled it loads that itself."""

    def root_of(self, place: str) -> str:
        """The folder around a location that one store is opened at."""

    def store(self, root: StoreLocation, like: ObjectStore | None = None) -> ObjectStore:
        """The store at a location, reached the way that `like` is."""


@dataclass(frozen=True)
class FileIO:
    """Access to all files of one table; `recorded` is `location` in its metadata.

    `declared` are places that configuration lets the metadata name besides the table's own.
    """

    location: StoreLocation
    recorded: str
    _stores: dict[StoreLocation, ObjectStore] = field(
        default_factory=dict, repr=False, compare=False
    )
    declared: tuple[str, ...] = field(default_factory=declared_places)
    vended: Access | None = field(default=None, repr=False, compare=False)
    bars: Bars = NO_BARS
    """What the catalog, or its configuration, demands of clients that write and delete."""

    def __reduce__(self) -> tuple[Any, ...]:
        known = self.declared, self.vended, self.bars
        return FileIO, (self.location, self.recorded, {}, *known)

    def also_at(self, places: Iterable[str]) -> FileIO:
        """The same with further places, which a caller and not the metadata names.

        Raises ConfigError for what is no absolute location.
        """
        return replace(self, declared=(*self.declared, *map(checked_place, places)))

    def read(self, uri: str) -> bytes:
        """The whole file. Raises ObjectNotFoundError."""
        store, path = self.place(uri)
        return store.get(path)

    def open_reader(self, uri: str) -> BinaryIO:
        """A seekable stream over the file. Raises ObjectNotFoundError."""
        store, path = self.place(uri)
        return store.open_reader(path)

    def open_writer(self, uri: str) -> AbstractContextManager[BinaryIO]:
        """A stream into a new file, complete when the `with` block ends. Raises
        UnsupportedTableError where files would need what a store does not give them."""
        self.require_writes()
        store, path = self.place(uri)
        return store.open_writer(path)

    def local_path(self, uri: str) -> str | None:
        """The native path of a file in a local folder to read, else None.

        Raises ObjectNotFoundError, and what opening a file that is none raises.
        """
        store, path = self.place(uri)
        return native_file(store, path)

    def write(self, uri: str, body: bytes) -> None:
        """Store a new file, whose name is this writer's own (it holds a UUID). Raises as
        `open_writer`."""
        self.require_writes()
        store, path = self.place(uri)
        store.put(path, body)

    def require_writes(self) -> None:
        """Raises UnsupportedTableError where files would need what a store does not give them."""
        if self.bars.writes is not None:
            raise UnsupportedTableError(
                f"the catalog's property {self.bars.writes} asks for more than Tideline writes with"
                " a file: have the catalog leave it out, or set it for the bucket instead",
                table=self.location.uri,
            )

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
        """The store and the path in it. Raises what `placed` raises."""
        root, path = self.placed(uri)
        return self.store_at(root), path

    def actual_uri(self, uri: str) -> str:
        """Where the file really is, as `file:///...` or `s3://...`, be it read or not.

        Raises CorruptTableError for what is no absolute location.
        """
        below = self._below_own(normalised(uri))
        if below is None:
            return normalised(uri)
        root = self.location.uri
        return f"{root.removesuffix('/')}/{below}" if below else root

    def placed(self, uri: str) -> tuple[StoreLocation, str]:
        """Where a file is: a store's location, the table's own if it is below that, and the path.

        Raises CorruptTableError for what is no absolute location, UnsupportedTableError for one
        that is not read.
        """
        plain = normalised(uri)
        below = self._below_own(plain)
        if below is not None:
            return self.location, below
        root = NamedPlaces.of(self.location.uri, self.declared).root_of(plain)
        if root is None:
            message = not_named("the metadata")
            raise UnsupportedTableError(message, table=self.location.uri, path=uri)
        scheme, _, rest = root.partition("://")
        if scheme == "file":
            # Links do not lead out of what was declared.
            return StoreLocation(root), plain[len(root) :].lstrip("/")
        bucket = rest.partition("/")[0]
        options = self.location.options if scheme == self.location.scheme else ()
        own, vended = f"{scheme}://{bucket}", self.vended if scheme == "s3" else None
        place = StoreLocation(own if vended is None else vended.root_of(plain), options)
        return place, plain[len(place.uri) :].lstrip("/")

    def _below_own(self, plain: str) -> str | None:
        """The path of a location in the table's folder; None for one elsewhere."""
        for place in (normalised(self.recorded), normalised(self.location.uri)):
            if plain == place:
                return ""
            if plain.startswith(f"{place}/"):
                return plain[len(place) + 1 :]
        return None if "://" in plain else self._below_table(plain)

    def _below_table(self, relative: str) -> str:
        for place in (self.recorded, self.location.uri):
            name = place.rstrip("/").rpartition("/")[2]
            _, found, rest = f"/{relative}".partition(f"/{name}/")
            if found:
                return rest
        message = "a location in the metadata is relative, and does not name the table's folder"
        raise CorruptTableError(message, table=self.location.uri, path=relative)

    def store_at(self, root: StoreLocation) -> ObjectStore:
        """The store of a location that `placed` gave, opened once; at the endpoint of the table's
        own with the credentials of that."""
        if root not in self._stores:
            own = self._stores.get(self.location)
            if self.vended is not None and root.scheme == "s3":
                self._stores[root] = self.vended.store(root, own)
            elif isinstance(own, RemoteStore) and root.scheme == own.scheme:
                self._stores[root] = own.elsewhere(*bucket_and_prefix(root.uri))
            else:
                self._stores[root] = root.open()
        return self._stores[root]
