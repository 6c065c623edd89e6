"""An object store that says what it is about to do, before every call.

The listener may let other writers go first, move a clock or raise: that is how two writers are
interleaved in one thread, and how the simulator hands out turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
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
class Step:
    """One call on a store: the method (`close_writer` for the end of a stream) and the path."""

    method: str
    path: str


class SteppingStore:
    """Passes every call on to `inner`, after `before(step)`; `after(step)` follows what worked."""

    def __init__(
        self,
        inner: ObjectStore,
        before: Callable[[Step], None],
        after: Callable[[Step], None] = lambda _: None,
    ) -> None:
        self._inner = inner
        self._before = before
        self._after = after

    @property
    def uri(self) -> str:
        return self._inner.uri

    def get(self, path: str) -> bytes:
        self._before(Step("get", path))
        return self._inner.get(path)

    def get_versioned(self, path: str) -> VersionedBody:
        self._before(Step("get_versioned", path))
        return self._inner.get_versioned(path)

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        self._before(Step("get_range", path))
        return self._inner.get_range(path, offset=offset, length=length)

    def head(self, path: str) -> ObjectInfo | None:
        self._before(Step("head", path))
        return self._inner.head(path)

    def put(self, path: str, body: bytes) -> Written:
        self._before(Step("put", path))
        written = self._inner.put(path, body)
        self._after(Step("put", path))
        return written

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        self._before(Step("put_if_absent", path))
        existed = self._inner.head(path) is not None
        result = self._inner.put_if_absent(path, body, token=token)
        if isinstance(result, Written) and not existed:
            self._after(Step("put_if_absent", path))
        return result

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        self._before(Step("put_if_match", path))
        result = self._inner.put_if_match(path, body, version=version)
        if isinstance(result, Written):
            self._after(Step("put_if_match", path))
        return result

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._before(Step("list", prefix))
        return iter(tuple(self._inner.list(prefix)))

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        self._before(Step("list_after", path))
        return iter(tuple(self._inner.list_after(path)))

    def list_directory(self, prefix: str = "") -> Listing:
        self._before(Step("list_directory", prefix))
        return self._inner.list_directory(prefix)

    def delete(self, path: str) -> None:
        self._before(Step("delete", path))
        self._inner.delete(path)
        self._after(Step("delete", path))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        """One step per object, as no store does this at once."""
        for info in self.list(prefix):
            self.delete(info.path)

    def open_reader(self, path: str) -> BinaryIO:
        self._before(Step("open_reader", path))
        return self._inner.open_reader(path)

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return _SteppingUpload(self, path, self._inner.open_writer(path))

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(path)


class _SteppingUpload:
    def __init__(
        self, store: SteppingStore, path: str, inner: AbstractContextManager[BinaryIO]
    ) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    def __enter__(self) -> BinaryIO:
        self._store._before(Step("open_writer", self._path))
        return self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            try:
                self._store._before(Step("close_writer", self._path))
            except BaseException as fault:
                self._inner.__exit__(type(fault), fault, None)
                raise
        self._inner.__exit__(kind, error, trace)
        if kind is None:
            self._store._after(Step("close_writer", self._path))
