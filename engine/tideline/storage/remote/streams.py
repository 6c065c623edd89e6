"""Streams over one object at a server: random access by ranges, and an upload in parts."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, BinaryIO, Protocol, cast

import obstore
from obstore.exceptions import BaseError

from tideline.errors import StorageUnavailableError

PART_BYTES = 8 * 1024 * 1024


class Requests(Protocol):
    """What the streams ask of their store."""

    def _client(self, *, data: bool) -> Any: ...

    def _new_key(self, path: str) -> str: ...

    def _range(self, client: Any, path: str, offset: int, length: int) -> bytes: ...

    def _requesting(
        self, action: str, path: str, *, requests: int
    ) -> AbstractContextManager[None]: ...


class RangeReader(io.RawIOBase):
    """Random access by ranged reads; io.BufferedReader in front keeps small reads cheap."""

    def __init__(self, store: Requests, path: str, size_bytes: int) -> None:
        self._store = store
        self._path = path
        self._size_bytes = size_bytes
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
        self._position = max(0, start[whence] + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        chunk = self._read(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def readall(self) -> bytes:
        return self._read(self._size_bytes)

    def _read(self, length: int) -> bytes:
        length = min(length, self._size_bytes - self._position)
        if length <= 0:
            return b""
        client = self._store._client(data=True)
        chunk = self._store._range(client, self._path, self._position, length)
        if len(chunk) < length:
            raise StorageUnavailableError(
                "object became shorter while it was read", path=self._path
            )
        self._position += length
        return chunk


class Upload(io.RawIOBase):
    """A streamed, multipart upload; only leaving the `with` block normally completes it."""

    def __init__(self, store: Requests, path: str) -> None:
        self._store = store
        self._path = path
        self._writer: Any = None
        self._position = 0

    def __enter__(self) -> BinaryIO:  # type: ignore[override]
        store = self._store
        with store._requesting("write", self._path, requests=0):
            client = store._client(data=True)
            self._writer = obstore.open_writer(
                client, store._new_key(self._path), buffer_size=PART_BYTES
            )
        return cast(BinaryIO, self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # With an exception obstore aborts the upload, without one it completes it.
        # One, or a beginning, the parts and an end.
        parts = -(-self._position // PART_BYTES)
        with self._store._requesting("write", self._path, requests=1 if parts < 2 else parts + 2):
            if kind is None:
                self._writer.__exit__(None, None, None)
                return
            with suppress(BaseError, OSError):
                self._writer.__exit__(kind, error, trace)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any, /) -> int:
        with self._store._requesting("write", self._path, requests=0):
            self._writer.write(data)
        written = memoryview(data).nbytes
        self._position += written
        return written
