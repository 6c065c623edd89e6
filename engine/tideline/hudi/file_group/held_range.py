"""A stream of a stored object with one range held in memory.

Reading some columns of a row group and copying the others asks for many small ranges; each would be
a request to the store. The row group is read once and answers them all.
"""

from __future__ import annotations

import io
from typing import BinaryIO

_CHUNK_BYTES = 32 * 1024 * 1024


class HeldRange(io.RawIOBase):
    """The stream, at the same positions; reads within the range that is held ask it for nothing."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._position = 0
        self._start = 0
        self._held = b""

    def hold(self, start: int, end: int) -> None:
        """Hold this range instead of the one before."""
        self._held = b""
        self._stream.seek(start)
        lengths = (min(_CHUNK_BYTES, end - at) for at in range(start, end, _CHUNK_BYTES))
        self._held = b"".join(self._stream.read(length) for length in lengths)
        self._start = start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_CUR:
            offset, whence = self._position + offset, io.SEEK_SET
        self._position = (
            max(0, offset) if whence == io.SEEK_SET else self._stream.seek(offset, whence)
        )
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        at = self._position - self._start
        if at >= 0 and 0 <= size <= len(self._held) - at:
            chunk = self._held[at : at + size]
        else:
            self._stream.seek(self._position)
            chunk = self._stream.read(size)
        self._position += len(chunk)
        return chunk

    def close(self) -> None:
        self._held = b""
        self._stream.close()
        super().close()
