"""A folder of a store as a store of its own: every path gets the folder's in front.

For a table that lies in the control folder of another one, such as Hudi's metadata table. Listings
show paths relative to the folder. Errors name the path in the outer store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import BinaryIO

from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    ObjectStore,
    VersionedBody,
    Written,
)


@dataclass(frozen=True, slots=True)
class StoreBelow:
    """`outer` as it looks from `folder`, which has no slash at either end."""

    outer: ObjectStore
    folder: str

    @property
    def uri(self) -> str:
        return f"{self.outer.uri.rstrip('/')}/{self.folder}"

    def get(self, path: str) -> bytes:
        return self.outer.get(self._out(path))

    def get_versioned(self, path: str) -> VersionedBody:
        return self.outer.get_versioned(self._out(path))

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        return self.outer.get_range(self._out(path), offset=offset, length=length)

    def head(self, path: str) -> ObjectInfo | None:
        found = self.outer.head(self._out(path))
        return None if found is None else self._in(found)

    def put(self, path: str, body: bytes) -> Written:
        return self.outer.put(self._out(path), body)

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        return self.outer.put_if_absent(self._out(path), body, token=token)

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        return self.outer.put_if_match(self._out(path), body, version=version)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return map(self._in, self.outer.list(self._out(prefix)))

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        below = f"{self.folder}/"
        found = self.outer.list_after(f"{below}{path}")
        return (self._in(info) for info in found if info.path.startswith(below))

    def list_directory(self, prefix: str = "") -> Listing:
        listing = self.outer.list_directory(self._out(prefix))
        return Listing(
            tuple(map(self._in, listing.objects)),
            tuple(path[len(self.folder) + 1 :] for path in listing.directories),
        )

    def delete(self, path: str) -> None:
        self.outer.delete(self._out(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        self.outer.delete_many(map(self._out, paths))

    def delete_prefix(self, prefix: str) -> None:
        self.outer.delete_prefix(self._out(prefix))

    def open_reader(self, path: str) -> BinaryIO:
        return self.outer.open_reader(self._out(path))

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self.outer.open_writer(self._out(path))

    def local_path(self, path: str) -> str | None:
        return self.outer.local_path(self._out(path))

    def _out(self, path: str) -> str:
        return f"{self.folder}/{path}" if path else self.folder

    def _in(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, path=info.path[len(self.folder) + 1 :])
