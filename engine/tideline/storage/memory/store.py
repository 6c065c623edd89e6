"""An object store in this process's memory, for tests and simulations.

All stores opened under one `memory://` name share their objects; another process sees none of them.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO

from tideline.bounded.read_limits import admit
from tideline.clock import Clock, SystemClock
from tideline.errors import ObjectNotFoundError
from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    VersionedBody,
    Written,
    carries_token,
    checked_path,
    checked_prefix,
)


class MemoryStore:
    """`memory://<name>[/<prefix>]`: thread-safe, shared by name within the process.

    A `clock` given here stamps the objects of every store of that name from then on.
    """

    def __init__(self, name: str, prefix: str = "", *, clock: Clock | None = None) -> None:
        self._name = name
        self._prefix = checked_prefix(prefix)
        self._bucket = _bucket(name)
        if clock is not None:
            self._bucket.clock = clock

    def __reduce__(self) -> tuple[type[MemoryStore], tuple[str, str]]:
        return MemoryStore, (self._name, self._prefix)

    @staticmethod
    def forget(name: str) -> None:
        """Drop everything stored under `name`."""
        with _registry_lock:
            _registry.pop(name, None)

    @property
    def uri(self) -> str:
        return f"memory://{self._name}" + (f"/{self._prefix}" if self._prefix else "")

    def get(self, path: str) -> bytes:
        return self._whole(path).body

    def get_versioned(self, path: str) -> VersionedBody:
        found = self._whole(path)
        return VersionedBody(found.body, str(found.version))

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        return self._object(path).body[offset : offset + length]

    def head(self, path: str) -> ObjectInfo | None:
        found = self._bucket.objects.get(self._key(path))
        return None if found is None else _info(path, found)

    def put(self, path: str, body: bytes) -> Written:
        with self._bucket.lock:
            return self._bucket.store(self._key(path), body)

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        key = self._key(path)
        with self._bucket.lock:
            existing = self._bucket.objects.get(key)
            if existing is None:
                return self._bucket.store(key, body, token)
            if (token is not None and existing.token == token) or carries_token(
                body, existing.body, token
            ):
                return Written(str(existing.version))
            return AlreadyExists()

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        key = self._key(path)
        with self._bucket.lock:
            existing = self._bucket.objects.get(key)
            if existing is None or str(existing.version) != version:
                return Changed()
            return self._bucket.store(key, body)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        below = self._below(prefix)
        for key, found in self._snapshot(below):
            yield _info(self._relative(key), found)

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        return (info for info in self.list() if info.path > path)

    def list_directory(self, prefix: str = "") -> Listing:
        below = self._below(prefix)
        objects: list[ObjectInfo] = []
        directories: set[str] = set()
        for key, found in self._snapshot(below):
            name, slash, _ = key[len(below) :].partition("/")
            if slash:
                directories.add(self._relative(below + name))
            else:
                objects.append(_info(self._relative(key), found))
        return Listing(tuple(objects), tuple(sorted(directories)))

    def delete(self, path: str) -> None:
        with self._bucket.lock:
            self._bucket.objects.pop(self._key(path), None)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        below = self._below(prefix)
        with self._bucket.lock:
            for key in [key for key in self._bucket.objects if key.startswith(below)]:
                del self._bucket.objects[key]

    def open_reader(self, path: str) -> BinaryIO:
        return io.BytesIO(self._object(path).body)

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return _Upload(self, checked_path(path))

    def local_path(self, path: str) -> str | None:  # noqa: ARG002
        return None

    def _whole(self, path: str) -> _Object:
        found = self._object(path)
        admit(len(found.body), path=f"{self.uri}/{path}")
        return found

    def _object(self, path: str) -> _Object:
        found = self._bucket.objects.get(self._key(path))
        if found is None:
            raise ObjectNotFoundError("no such object", path=f"{self.uri}/{path}")
        return found

    def _snapshot(self, below: str) -> Sequence[tuple[str, _Object]]:
        with self._bucket.lock:
            items = [item for item in self._bucket.objects.items() if item[0].startswith(below)]
        return sorted(items, key=lambda item: item[0])

    def _key(self, path: str) -> str:
        checked_path(path)
        return f"{self._prefix}/{path}" if self._prefix else path

    def _below(self, prefix: str) -> str:
        directory = "/".join(part for part in (self._prefix, checked_prefix(prefix)) if part)
        return f"{directory}/" if directory else ""

    def _relative(self, key: str) -> str:
        return key[len(self._prefix) + 1 :] if self._prefix else key


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    version: int
    modified_ms: int
    token: str | None


@dataclass(slots=True)
class _Bucket:
    clock: Clock = field(default_factory=SystemClock)
    lock: threading.RLock = field(default_factory=threading.RLock)
    objects: dict[str, _Object] = field(default_factory=dict)
    newest_version: int = 0

    def store(self, key: str, body: bytes, token: str | None = None) -> Written:
        self.newest_version += 1
        version = self.newest_version
        self.objects[key] = _Object(bytes(body), version, self.clock.now_ms(), token)
        return Written(str(version))


_registry: dict[str, _Bucket] = {}
_registry_lock = threading.Lock()


def _bucket(name: str) -> _Bucket:
    with _registry_lock:
        return _registry.setdefault(name, _Bucket())


def _info(path: str, found: _Object) -> ObjectInfo:
    return ObjectInfo(path, len(found.body), found.modified_ms, str(found.version))


class _Unclosed(io.BytesIO):
    """Keeps its bytes when a writer closes it inside the `with` block."""

    def close(self) -> None:
        pass


class _Upload:
    def __init__(self, store: MemoryStore, path: str) -> None:
        self._store = store
        self._path = path
        self._buffer = _Unclosed()

    def __enter__(self) -> BinaryIO:
        return self._buffer

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._store.put(self._path, self._buffer.getvalue())
