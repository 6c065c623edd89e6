"""A stream as Arrow reads it: straight into Arrow's memory, each range by one read.

Without this each range becomes a `bytes` object of its own, memory that the system gives and takes
back every time, and one that a store's buffer splits into two requests.
"""

from __future__ import annotations

import io
from typing import BinaryIO

import pyarrow as pa


def arrow_stream(stream: BinaryIO) -> pa.PythonFile:
    """What Arrow opens to read the stream. The stream is still its opener's to close."""
    if isinstance(stream, io.BufferedReader):
        return pa.PythonFile(_IntoArrow(stream), mode="r")
    return pa.PythonFile(stream, mode="r")


class _IntoArrow:
    """The methods of a stream that Arrow calls; `read_buffer` is one that only Arrow knows."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self.seek = stream.seek
        self.tell = stream.tell
        self.read = stream.read
        self.close = stream.close

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def read_buffer(self, size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(size)
        found = self._stream.readinto(memoryview(buffer))
        return buffer if found == size else buffer.slice(0, found)
