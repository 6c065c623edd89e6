"""A store whose listings come late: what they say is no longer so when the caller gets it.

A listing shows every write that finished before it began, and of those during it what it may: the
pages of one listing are read one after another. So the first half of a long listing is of its
beginning, the second half of some time later, and the answer of later still.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from random import Random
from typing import BinaryIO, TypeVar

from tideline.storage.object_store import (
    AlreadyExists,
    Changed,
    Listing,
    ObjectInfo,
    ObjectStore,
    VersionedBody,
    Written,
)

_T = TypeVar("_T")


def late_listings(inner: ObjectStore, delay_s_max: float) -> ObjectStore:
    """The store itself where nothing is to be late."""
    return LateListings(inner, delay_s_max) if delay_s_max else inner


class LateListings:
    """Passes every call on to `inner`; one of four listings takes up to `delay_s_max`, twice."""

    def __init__(self, inner: ObjectStore, delay_s_max: float) -> None:
        self._inner = inner
        self._delay_s_max = delay_s_max
        self._random = Random()

    @property
    def uri(self) -> str:
        return self._inner.uri

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._paged(lambda: self._inner.list(prefix))

    def list_after(self, path: str) -> Iterator[ObjectInfo]:
        return self._paged(lambda: self._inner.list_after(path))

    def list_directory(self, prefix: str = "") -> Listing:
        if not self._is_late():
            return self._inner.list_directory(prefix)
        first = self._inner.list_directory(prefix)
        self._wait()
        second = self._inner.list_directory(prefix)
        self._wait()
        objects = _pages(first.objects, second.objects, lambda info: info.path)
        directories = _pages(first.directories, second.directories, str)
        return Listing(objects, directories)

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def get_versioned(self, path: str) -> VersionedBody:
        return self._inner.get_versioned(path)

    def get_range(self, path: str, *, offset: int, length: int) -> bytes:
        return self._inner.get_range(path, offset=offset, length=length)

    def head(self, path: str) -> ObjectInfo | None:
        return self._inner.head(path)

    def put(self, path: str, body: bytes) -> Written:
        return self._inner.put(path, body)

    def put_if_absent(
        self, path: str, body: bytes, *, token: str | None = None
    ) -> Written | AlreadyExists:
        return self._inner.put_if_absent(path, body, token=token)

    def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
        return self._inner.put_if_match(path, body, version=version)

    def delete(self, path: str) -> None:
        self._inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        self._inner.delete_many(paths)

    def delete_prefix(self, prefix: str) -> None:
        self._inner.delete_prefix(prefix)

    def open_reader(self, path: str) -> BinaryIO:
        return self._inner.open_reader(path)

    def open_writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._inner.open_writer(path)

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(path)

    def _paged(self, list_all: Callable[[], Iterator[ObjectInfo]]) -> Iterator[ObjectInfo]:
        if not self._is_late():
            yield from list_all()
            return
        first = tuple(list_all())
        self._wait()
        second = tuple(list_all())
        self._wait()
        yield from _pages(first, second, lambda info: info.path)

    def _is_late(self) -> bool:
        return self._random.random() < 0.25

    def _wait(self) -> None:
        time.sleep(self._random.uniform(0, self._delay_s_max))


def _pages(
    first: Iterable[_T], second: Iterable[_T], path_of: Callable[[_T], str]
) -> tuple[_T, ...]:
    """The first half of the first, then what sorts after it of the second."""
    early = sorted(first, key=path_of)
    early = early[: (len(early) + 1) // 2]
    last = path_of(early[-1]) if early else ""
    late = sorted((item for item in second if path_of(item) > last), key=path_of)
    return (*early, *late)
