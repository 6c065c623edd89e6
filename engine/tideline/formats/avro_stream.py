"""The blocks of an Avro file that is read as a stream: one block is in memory at once.

Source: the Avro specification, "Object Container Files".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import admit
from tideline.formats.avro_blocks import SYNC_BYTES, AvroBlocks, open_blocks, opened_block
from tideline.formats.avro_scan import read_long

_CHUNK_BYTES = 1024 * 1024
_LONG_BYTES_MAX = 10
_UNREADABLE = "Avro file is truncated or unreadable"


class AvroStream:
    """An open file. Raises CorruptTableError naming the path for what is no Avro file."""

    def __init__(self, stream: BinaryIO, *, path: object) -> None:
        self._stream = stream
        self._path = path
        self._held = b""
        self._at = 0
        header = self._header()
        self._codec = header.metadata.get("avro.codec", "null")
        self._sync = self._held[header.blocks_at - SYNC_BYTES : header.blocks_at]
        self._at = header.blocks_at
        self.schema: Any = header.schema

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records and the decompressed bytes of each block.

        Raises CorruptTableError and UnsupportedTableError naming the path.
        """
        while self._fill(2 * _LONG_BYTES_MAX):
            with faults_named(_UNREADABLE, path=self._path):
                count, at = read_long(self._held, self._at)
                size, at = read_long(self._held, at)
                if count < 0 or size < 0:
                    raise ValueError("a block of less than nothing")
                admit(size, path=self._path, what="a block of an Avro file")
                self._at = at
                self._fill(size + SYNC_BYTES)
                end = self._at + size
                if self._held[end : end + SYNC_BYTES] != self._sync:
                    raise ValueError("a block does not end with the marker")
            stored, self._at = self._held[self._at : end], end + SYNC_BYTES
            yield count, opened_block(self.schema, self._codec, count, stored, self._path)

    def _header(self) -> AvroBlocks:
        """A header may be longer than the first chunk, and is read again with more then."""
        while True:
            had = len(self._held)
            is_all = not self._fill(had + _CHUNK_BYTES) or len(self._held) < had + _CHUNK_BYTES
            try:
                return open_blocks(self._held, path=self._path)
            except Exception:
                if is_all:
                    raise
            admit(len(self._held), path=self._path, what="the header of an Avro file")

    def _fill(self, size: int) -> int:
        """Hold so many bytes from the present place on, or all that are left; how many are."""
        left = len(self._held) - self._at
        if left >= size:
            return left
        parts = [self._held[self._at :]]
        while left < size:
            chunk = self._stream.read(max(_CHUNK_BYTES, size - left))
            if not chunk:
                break
            parts.append(chunk)
            left += len(chunk)
        self._held, self._at = b"".join(parts), 0
        return left
