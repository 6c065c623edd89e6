"""Log files as bytes: blocks framed one after another, and what is found between damaged ones.

A block is, integers big-endian:

1. the magic `#HUDI#`, 6 bytes;
2. its size, 8 bytes: all that follows this field, so the whole block is 14 bytes longer;
3. the log format version, 4 bytes, 1; the kind of block, 4 bytes;
4. the headers: count, then per header key, length, UTF-8 text (4 bytes each integer);
5. the content: length, 8 bytes, then the bytes;
6. the footers, shaped like the headers, always none;
7. a pointer back, 8 bytes: the distance from the magic to this field.

Reading, a block is damaged when its size runs past the end of the file, when the pointer back does
not agree with the size, or when neither another magic nor the end of the file follows. Then the
next magic is looked for in windows of 1 MiB, and all before it is one corrupt block.
Source: Hudi's HoodieLogFormatWriter, HoodieLogFileReader, HoodieLogBlock, HoodieCommandBlock.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tideline.bounded.read_limits import admit
from tideline.errors import CorruptTableError, UnsupportedTableError

MAGIC = b"#HUDI#"
LOG_FORMAT_VERSION = 1
AVRO_CONTENT_VERSION = 3
DELETE_CONTENT_VERSION = 3

ReadRange = Callable[[int, int], bytes]
"""Gives the bytes at (offset, length), fewer where the file ends."""

_SIZE = struct.Struct(">q")
_INT = struct.Struct(">i")
_ROLLBACK_COMMAND = "0"
_SEARCH_WINDOW_BYTES = 1024 * 1024
_READ_AHEAD_BYTES = 64 * 1024
_PREFIX_BYTES = len(MAGIC) + _SIZE.size


class BlockKind(Enum):
    """What a block holds; the value is its number in the frame."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6

    @property
    def is_data(self) -> bool:
        """Whether it holds rows of the table."""
        return self in (BlockKind.AVRO_DATA, BlockKind.HFILE_DATA, BlockKind.PARQUET_DATA)


class HeaderKey(Enum):
    """What a header says; the value is its number in the frame."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


@dataclass(frozen=True, slots=True)
class BlockFrame:
    """One block of a log file, without its content.

    `offset` is that of its magic and `size_bytes` its whole length. A corrupt block has no headers
    and all of its bytes behind the magic as content.
    """

    kind: BlockKind
    headers: Mapping[HeaderKey, str] = field(hash=False)
    offset: int
    size_bytes: int
    content_offset: int
    content_size_bytes: int

    @property
    def is_rollback(self) -> bool:
        """Whether it is the command to forget the blocks of `TARGET_INSTANT_TIME`."""
        is_command = self.kind is BlockKind.COMMAND
        return is_command and self.headers.get(HeaderKey.COMMAND_BLOCK_TYPE) == _ROLLBACK_COMMAND


def encode_block(kind: BlockKind, headers: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """A block whole, its headers in the order given."""
    parts = [_INT.pack(LOG_FORMAT_VERSION), _INT.pack(kind.value), _INT.pack(len(headers))]
    for key, text in headers.items():
        encoded = text.encode()
        parts += [_INT.pack(key.value), _INT.pack(len(encoded)), encoded]
    parts += [_SIZE.pack(len(content)), content, _INT.pack(0)]
    body = b"".join(parts)
    return b"".join(
        (MAGIC, _SIZE.pack(len(body) + _SIZE.size), body, _SIZE.pack(_PREFIX_BYTES + len(body)))
    )


def rollback_command_block(instant: str, target: str) -> bytes:
    """The command that makes readers forget what `target` has written up to here.

    `instant` is the time of the rollback.
    """
    headers = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK_COMMAND,
    }
    return encode_block(BlockKind.COMMAND, headers, b"")


def read_frames(
    read_range: ReadRange, size_bytes: int, *, path: object = None
) -> tuple[BlockFrame, ...]:
    """The blocks of a log file of `size_bytes`, damaged ones as corrupt blocks. Reads no contents.

    Raises CorruptTableError when the file does not begin with a block or a sound frame holds
    nonsense, UnsupportedTableError for a log format or header of another version; both name `path`.
    """
    source = _Source(read_range, size_bytes, path)
    frames = []
    offset = 0
    # Fewer bytes than a magic are no block and no damage.
    while offset + len(MAGIC) <= size_bytes:
        if source.read(offset, len(MAGIC)) != MAGIC:
            raise CorruptTableError("log file does not begin with a block", path=path, value=offset)
        frame = _read_frame(source, offset)
        frames.append(frame)
        offset += frame.size_bytes
    return tuple(frames)


def encode_avro_content(datums: Iterable[bytes]) -> bytes:
    """The content of an AVRO_DATA block of these records: version, count, each with its length."""
    parts = []
    for datum in datums:
        parts += [_INT.pack(len(datum)), datum]
    return avro_content(len(parts) // 2, b"".join(parts))


def avro_content(count: int, framed: bytes) -> bytes:
    """The same of so many records that have their lengths before them."""
    return b"".join((_INT.pack(AVRO_CONTENT_VERSION), _INT.pack(count), framed))


def split_avro_content(content: bytes, *, path: object = None) -> list[bytes]:
    """The records of an AVRO_DATA block's content, of any content version.

    Raises CorruptTableError naming `path` when lengths and content do not agree.
    """
    datums = []
    position = 2 * _INT.size
    try:
        (count,) = _INT.unpack_from(content, _INT.size)
        if not 0 <= count <= len(content) // _INT.size:
            raise CorruptTableError(
                "record count of an Avro log block is wrong", path=path, value=count
            )
        for _ in range(count):
            (length,) = _INT.unpack_from(content, position)
            if length < 0:
                raise CorruptTableError(
                    "a record of an Avro log block has a negative length", path=path, value=length
                )
            position += _INT.size
            datums.append(content[position : position + length])
            position += length
    except struct.error as error:
        raise CorruptTableError("Avro log block is cut short", path=path, value=error) from error
    if position != len(content):
        raise CorruptTableError("lengths in an Avro log block are wrong", path=path, value=position)
    return datums


def encode_delete_content(datum: bytes) -> bytes:
    """The content of a DELETE block: version, length, and a list of deletes as one Avro datum."""
    return _INT.pack(DELETE_CONTENT_VERSION) + _INT.pack(len(datum)) + datum


def split_delete_content(content: bytes, *, path: object = None) -> bytes:
    """The datum of a DELETE block's content.

    Raises CorruptTableError for content that cannot be read and UnsupportedTableError for that of
    table versions before 6, both naming `path`.
    """
    head = 2 * _INT.size
    if len(content) < head:
        raise CorruptTableError("delete block is cut short", path=path)
    (version,), (length,) = _INT.unpack_from(content), _INT.unpack_from(content, _INT.size)
    if version != DELETE_CONTENT_VERSION:
        raise UnsupportedTableError(
            "delete blocks of this version are not read", path=path, value=version
        )
    datum = content[head:]
    if len(datum) != length:
        raise CorruptTableError("length in a delete block is wrong", path=path, value=length)
    return datum


class _Source:
    """A log file read in windows, so that small neighbouring reads are one request."""

    def __init__(self, read_range: ReadRange, size_bytes: int, path: object) -> None:
        self._read_range = read_range
        self.size_bytes = size_bytes
        self.path = path
        # Two, for a block's end is looked at before its headers.
        self._windows: list[tuple[int, bytes]] = []

    def read(self, offset: int, length: int) -> bytes:
        """The bytes there, fewer where the file ends."""
        length = min(length, self.size_bytes - offset)
        for start, window in self._windows:
            if start <= offset and offset + length <= start + len(window):
                return window[offset - start : offset - start + length]
        ahead = min(max(length, _READ_AHEAD_BYTES), self.size_bytes - offset)
        window = self._read_range(offset, ahead)
        self._windows = [(offset, window), *self._windows[:1]]
        return window[:length]

    def int_at(self, offset: int) -> int:
        """The 4 byte integer there. Raises CorruptTableError where the file ends."""
        return int(self._unpack(_INT, offset))

    def long_at(self, offset: int) -> int:
        """The 8 byte integer there. Raises CorruptTableError where the file ends."""
        return int(self._unpack(_SIZE, offset))

    def _unpack(self, kind: struct.Struct, offset: int) -> int:
        try:
            value: int = kind.unpack(self.read(offset, kind.size))[0]
        except struct.error as error:
            raise self.corrupt("log block is cut short", offset) from error
        return value

    def corrupt(self, message: str, value: object) -> CorruptTableError:
        return CorruptTableError(message, path=self.path, value=value)


def _read_frame(source: _Source, offset: int) -> BlockFrame:
    size = _sound_size(source, offset)
    if size is None:
        return _corrupt_block(source, offset)
    position = offset + _PREFIX_BYTES
    version = source.int_at(position)
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedTableError(
            "log blocks of this format version are not read", path=source.path, value=version
        )
    kind = source.int_at(position + _INT.size)
    try:
        block_kind = BlockKind(kind)
    except ValueError as error:
        raise source.corrupt("log block of an unknown kind", kind) from error
    headers, position = _read_headers(source, position + 2 * _INT.size, offset + size)
    length = source.long_at(position)
    position += _SIZE.size
    if not 0 <= length <= offset + size - position:
        raise source.corrupt("content of a log block is longer than the block", length)
    return BlockFrame(block_kind, headers, offset, size, position, length)


def _sound_size(source: _Source, offset: int) -> int | None:
    """The whole length of the block at `offset`, None when the block is damaged."""
    prefix = source.read(offset, _PREFIX_BYTES)
    if len(prefix) < _PREFIX_BYTES:
        return None
    (announced,) = _SIZE.unpack_from(prefix, len(MAGIC))
    size = int(announced) + _PREFIX_BYTES
    end = offset + size
    # The smallest block has a version, a kind, no headers, no content and no footers.
    if announced < 4 * _INT.size + 2 * _SIZE.size or end > source.size_bytes:
        return None
    if source.long_at(end - _SIZE.size) - len(MAGIC) != announced:
        return None
    following = source.read(end, len(MAGIC))
    return size if len(following) < len(MAGIC) or following == MAGIC else None


def _corrupt_block(source: _Source, offset: int) -> BlockFrame:
    start = offset + len(MAGIC)
    end = _next_magic(source, start)
    return BlockFrame(BlockKind.CORRUPT, {}, offset, end - offset, start, end - start)


def _next_magic(source: _Source, start: int) -> int:
    """Where the next magic is, or the end of the file."""
    position = start
    while position < source.size_bytes:
        found = source.read(position, _SEARCH_WINDOW_BYTES).find(MAGIC)
        if found >= 0:
            return position + found
        # A magic may lie across the border of two windows.
        position += _SEARCH_WINDOW_BYTES - len(MAGIC)
    return source.size_bytes


def _read_headers(source: _Source, position: int, end: int) -> tuple[dict[HeaderKey, str], int]:
    """The headers at `position` of a block that ends at `end`, and where they end."""
    headers: dict[HeaderKey, str] = {}
    count = source.int_at(position)
    position += _INT.size
    if not 0 <= count <= (end - position) // (2 * _INT.size):
        raise source.corrupt("log block with an impossible number of headers", count)
    for _ in range(count):
        number, length = source.int_at(position), source.int_at(position + _INT.size)
        position += 2 * _INT.size
        if 0 <= length <= end - position:
            admit(length, path=source.path, what="header of a log block")
        text = source.read(position, length) if 0 <= length <= end - position else b""
        if len(text) != length:
            raise source.corrupt("header of a log block is cut short", length)
        try:
            headers[HeaderKey(number)] = text.decode()
        except UnicodeDecodeError as error:
            raise source.corrupt("header of a log block is not text", number) from error
        except ValueError as error:
            raise UnsupportedTableError(
                "log block with a header of an unknown kind", path=source.path, value=number
            ) from error
        position += length
    return headers, position
