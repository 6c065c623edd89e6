"""The blocks of a table's log files as bytes, to hold against what is made of them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tideline.formats.log_block import BlockFrame, read_frames


def blocks_of(table: Path) -> Iterator[tuple[BlockFrame, bytes, bytes]]:
    """Frame, whole block and content of every block of the log files in a table's folder."""
    for file in sorted(table.rglob(".*.log.*")):
        if file.suffix == ".crc" or ".hoodie" in file.parts:
            continue
        body = file.read_bytes()
        for frame in frames_of(body):
            yield frame, body[frame.offset :][: frame.size_bytes], _content(frame, body)


def frames_of(body: bytes) -> tuple[BlockFrame, ...]:
    """The frames of all blocks in the bytes of a log file."""
    return read_frames(lambda offset, length: body[offset : offset + length], len(body))


def content_of(block: bytes) -> bytes:
    """The content of a single block."""
    (frame,) = frames_of(block)
    return _content(frame, block)


def _content(frame: BlockFrame, body: bytes) -> bytes:
    return body[frame.content_offset :][: frame.content_size_bytes]
