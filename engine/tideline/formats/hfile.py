"""HFiles: sorted pairs of key and value, as Hudi's metadata table and its log blocks hold them.

1. Data blocks `DATABLK*` of entries in ascending order of their keys' bytes, or as Hudi's writers
   sort them, in that of Java's texts (`text_order`): length of the key
   field and of the value, 4 bytes each; the key field: length of the key, 2 bytes, the key, and 10
   bytes of HBase's (no column family, the latest of times, the kind PUT), which Hudi 1.0 leaves
   out; the value; a version number, which is zero.
2. An index `IDXROOT2` of the data blocks, another of meta blocks, and what is said of the file,
   `FILEINF2`.
3. A trailer of 4096 bytes that says where all this is.

Every block has a header of 33 bytes: magic, its size on disk without the header, that of its
content, the offset of the block before it (-1), a checksum's kind (0: none) with how many bytes one
covers, and its size on disk with the header, without checksums. Four bytes of checksum for each
16 KiB follow even if they say nothing, and hudi-rs counts on them. Integers are big-endian; the
trailer and what is said of the file are protocol buffers.

Source: Hudi's HFileWriterImpl, HFileReaderImpl, HFileTrailer; HBase's book, appendix on HFile v3.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter

from tideline.bounded.parsing import decompress_bounded, faults_named
from tideline.bounded.read_limits import admit
from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.formats.protocol_buffer import read_message, read_varint
from tideline.formats.text_order import has_own_order_in_java, java_order

BLOCK_BYTES_MAX = 1024 * 1024
TRAILER_BYTES = 4096
"""The last bytes of a file, which say where everything is."""
KEY_TAIL = b"\0" + struct.pack(">q", 2**63 - 1) + b"\x04"
"""What follows a key in its field: HBase's column family, time and kind."""

_MAJOR_VERSION = 3
_DATA, _INDEX = b"DATABLK*", b"IDXROOT2"
_FILE_INFO, _TRAILER = b"FILEINF2", b'TRABLK"$'
_HEADER = struct.Struct(">8siiqbii")
_ENTRY = struct.Struct(">iih")
_LENGTHS = struct.Struct(">ii")
_INDEX_ENTRY = struct.Struct(">qi")
_NO_BLOCK = -1
_BYTES_PER_CHECKSUM = 16_384
_GZIP, _PLAIN = 1, 2
_GZIP_LEVEL = 6
"""An eighth of the time of the highest level for 4 % more bytes."""
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"


@dataclass(frozen=True, slots=True)
class HFile:
    """Entries in the order of their keys' bytes, and what is said of the file by name."""

    entries: tuple[tuple[bytes, bytes], ...] = ()
    info: Mapping[str, bytes] = field(default_factory=dict)


def decode_hfile(body: bytes, *, path: object = None) -> HFile:
    """All of a file. An empty body is a file without entries.

    Entries come in the order of their keys' bytes.

    Raises CorruptTableError naming `path` for what is no HFile, and for keys out of order;
    UnsupportedTableError for one above the limits on metadata or in another codec.
    """
    if not body:
        return HFile()
    with faults_named("HFile is truncated or broken", path=path):
        trailer = read_trailer(body)
        info = info_at(body, trailer, 0, path)
        entries: list[tuple[bytes, bytes]] = []
        read_bytes = 0
        for block in _data_blocks(body, trailer, path):
            read_bytes += len(block)
            admit(read_bytes, path=path, what="HFile")
            entries += read_entries(block)
        if not _ascend([key for key, _ in entries]):
            raise CorruptTableError("keys of an HFile are out of order")
        entries.sort(key=itemgetter(0))
    return HFile(tuple(entries), info)


def encode_hfile(
    entries: Iterable[tuple[bytes, bytes]],
    info: Mapping[str, bytes],
    *,
    is_compressed: bool = True,
    block_bytes_max: int = BLOCK_BYTES_MAX,
) -> bytes:
    """A file of `entries`, which ascend by the bytes of their keys, each key once.

    `info` is what the owner says of the file; what readers need is added. Raises InvalidDataError
    for keys out of order.
    """
    writer = HFileWriter(is_compressed=is_compressed, block_bytes_max=block_bytes_max)
    for key, value in entries:
        writer.add(key, value)
    return writer.finish(info)


# Fields of the trailer; from `LOAD_AT` on come the indexes.
_INFO_AT, LOAD_AT, _INDEX_BYTES, _DATA_BLOCKS, _META_BLOCKS = 1, 2, 3, 5, 6
_ENTRIES, _LEVELS, _FIRST_AT, _LAST_AT, _COMPARED_BY, _CODEC = 7, 8, 9, 10, 11, 12


@dataclass(frozen=True, slots=True)
class Trailer:
    """What the trailer says, by its fields."""

    fields: Mapping[int, int | bytes]

    def number(self, name: int, default: int | None = None) -> int:
        value = self.fields[name] if default is None else self.fields.get(name, default)
        if not isinstance(value, int):
            raise CorruptTableError("a field of an HFile's trailer is no number", value=name)
        return value

    @property
    def codec(self) -> int:
        return self.number(_CODEC, _PLAIN)

    @property
    def is_compressed(self) -> bool:
        """Whether blocks are compressed as they are here."""
        return self.codec == _GZIP


@dataclass(frozen=True, slots=True)
class Block:
    """Where a data block lies, and the first of its keys."""

    first_key: bytes
    offset: int
    size_bytes: int

    def is_copyable(self, body: bytes) -> bool:
        """Whether it lies there as one block, without checksums of its bytes."""
        magic, on_disk, _, _, kind, _, _ = _HEADER.unpack_from(body, self.offset)
        is_one: bool = magic == _DATA and on_disk + _HEADER.size == self.size_bytes
        return is_one and kind == 0


def read_trailer(body: bytes) -> Trailer:
    """The trailer at the end of a file, or of its last bytes. Raises CorruptTableError where there
    is none, UnsupportedTableError for one of another version."""
    trailer = body[-TRAILER_BYTES:]
    if len(trailer) < TRAILER_BYTES or not trailer.startswith(_TRAILER):
        raise CorruptTableError("no HFile: its trailer is missing")
    if trailer[-1] != _MAJOR_VERSION:
        raise UnsupportedTableError("HFile of another version", value=trailer[-1])
    length, at = read_varint(trailer, len(_TRAILER))
    return Trailer(dict(read_message(trailer[at : at + length])))


def _data_blocks(body: bytes, trailer: Trailer, path: object) -> Iterator[bytes]:
    """The contents of the data blocks, which lie one after another, from first to last."""
    if not trailer.number(_ENTRIES, 0):
        return
    at, last = trailer.number(_FIRST_AT), trailer.number(_LAST_AT)
    while at <= last:
        magic, on_disk, *_ = _HEADER.unpack_from(body, at)
        if magic == _DATA:
            yield block_at(body, at, trailer.codec, path)
        at += _HEADER.size + max(on_disk, 0)


def info_at(tail: bytes, trailer: Trailer, start: int, path: object) -> dict[str, bytes]:
    """What is said of a file whose bytes from `start` on are `tail`."""
    return _read_info(block_at(tail, trailer.number(_INFO_AT) - start, trailer.codec, path))


def entry_count(trailer: Trailer) -> int:
    """How many entries a file says that it has."""
    return trailer.number(_ENTRIES, 0)


def blocks_of(tail: bytes, trailer: Trailer, path: object, start: int = 0) -> tuple[Block, ...]:
    """The data blocks of a file whose bytes from `start` on are `tail`.

    Raises CorruptTableError where keys or places are out of order, UnsupportedTableError for an
    index of several levels.
    """
    blocks = tuple(Block(*entry) for entry in index_entries(tail, trailer, start, path))
    in_order = _ascend([block.first_key for block in blocks])
    end = 0
    for block in blocks:
        if not in_order or block.offset < end or block.size_bytes <= 0:
            raise CorruptTableError("the index of an HFile is not that of its blocks", path=path)
        end = block.offset + block.size_bytes
    if end > trailer.number(LOAD_AT):
        raise CorruptTableError("the index of an HFile is not that of its blocks", path=path)
    return blocks


def index_entries(
    tail: bytes, trailer: Trailer, start: int, path: object
) -> Iterator[tuple[bytes, int, int]]:
    """The first key, the offset and the size in bytes of every data block of such a file.

    Raises UnsupportedTableError for an index of several levels.
    """
    count = trailer.number(_DATA_BLOCKS, 0)
    if not count or not trailer.number(_ENTRIES, 0):
        return
    levels = trailer.number(_LEVELS, 1)
    if levels > 1:
        raise UnsupportedTableError(
            "an HFile with an index of several levels is not looked into", path=path, value=levels
        )
    block = block_at(tail, trailer.number(LOAD_AT) - start, trailer.codec, path)
    at = 0
    for _ in range(count):
        offset, size_bytes = _INDEX_ENTRY.unpack_from(block, at)
        field_bytes, at = _read_hadoop_number(block, at + _INDEX_ENTRY.size)
        key_bytes = struct.unpack_from(">h", block, at)[0]
        key = block[at + 2 : at + 2 + key_bytes]
        if not 0 <= key_bytes <= field_bytes - 2 or len(key) != key_bytes:
            raise CorruptTableError("an entry of an HFile's index is cut short")
        yield key, offset, size_bytes
        at += field_bytes


def block_at(body: bytes, at: int, codec: int, path: object) -> bytes:
    """The content of the block at a place. Raises CorruptTableError, UnsupportedTableError."""
    if at < 0:
        raise CorruptTableError("a block of an HFile lies outside of it", value=at)
    _, _, size_bytes, _, _, _, end = _HEADER.unpack_from(body, at)
    stored = body[at + _HEADER.size : at + end]
    if codec not in (_GZIP, _PLAIN):
        raise UnsupportedTableError("HFile is compressed with an unknown codec", value=codec)
    content = decompress_bounded("gzip", stored, path=path) if codec == _GZIP else stored
    if len(content) != size_bytes:
        raise CorruptTableError("a block of an HFile is cut short", value=at)
    return content


def read_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a data block. Raises CorruptTableError for one that is cut short."""
    at = 0
    while at < len(block):
        field_bytes, value_bytes, key_bytes = _ENTRY.unpack_from(block, at)
        start = at + 8
        key = block[start + 2 : start + 2 + key_bytes]
        at = start + field_bytes + value_bytes
        value = block[start + field_bytes : at]
        if min(field_bytes - key_bytes, value_bytes, key_bytes) < 0 or len(value) != value_bytes:
            raise CorruptTableError("an entry of an HFile is cut short")
        yield key, value
        _, at = _read_hadoop_number(block, at)


def find_entries(block: bytes, keys: Collection[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The entries of a data block with these keys. Raises as `read_entries`.

    A key is looked for by its bytes, behind its length and in front of what follows a key; where
    that is found it must be an entry, for a longer key may end so.
    """
    field_bytes, _, key_bytes = _ENTRY.unpack_from(block, 0)
    if block[10 + key_bytes : 8 + field_bytes] != KEY_TAIL:
        yield from (entry for entry in read_entries(block) if entry[0] in keys)
        return
    passed = 0
    for key in sorted(keys):
        entry = passed
        spelled = struct.pack(">h", len(key)) + key + KEY_TAIL
        at = block.find(spelled, entry)
        while at >= 0:
            entry = _first_entry_from(block, at - 8, entry)
            if entry == at - 8:
                value_bytes = _ENTRY.unpack_from(block, entry)[1]
                end = at + len(spelled)
                yield key, block[end : end + value_bytes]
                break
            at = block.find(spelled, at + 1)
        if not has_own_order_in_java(key):
            # Keys that are greater by their bytes are behind this one in Java's order, too.
            passed = entry


def _ascend(keys: Sequence[bytes]) -> bool:
    """Whether keys are in the order of their bytes, or in Java's."""
    if all(earlier <= later for earlier, later in pairwise(keys)):
        return True
    in_java = [java_order(key) for key in keys]
    return all(earlier <= later for earlier, later in pairwise(in_java))


def _first_entry_from(block: bytes, place: int, entry: int) -> int:
    """Where the first entry begins that is not before a place, looked for from an entry on."""
    unpack, end = _LENGTHS.unpack_from, len(block)
    while entry < place:
        field_bytes, value_bytes = unpack(block, entry)
        # Behind the value is the version number, nearly always 0.
        entry += 9 + field_bytes + value_bytes
        if field_bytes < 2 or value_bytes < 0 or entry > end:
            raise CorruptTableError("an entry of an HFile is cut short")
        if block[entry - 1]:
            entry = _read_hadoop_number(block, entry - 1)[1]
    return entry


def _read_info(block: bytes) -> dict[str, bytes]:
    if not block.startswith(b"PBUF"):
        raise UnsupportedTableError("what is said of an HFile is not a protocol buffer")
    length, at = read_varint(block, 4)
    found: dict[str, bytes] = {}
    for _, pair in read_message(block[at : at + length]):
        members = dict(read_message(pair)) if isinstance(pair, bytes) else {}
        name, value = members[1], members.get(2, b"")
        if isinstance(name, bytes) and isinstance(value, bytes):
            found[name.decode()] = value
    return found


class HFileWriter:
    """A file in the making: blocks so far, and entries of the one under way."""

    def __init__(
        self, *, is_compressed: bool = True, block_bytes_max: int = BLOCK_BYTES_MAX
    ) -> None:
        self._codec = _GZIP if is_compressed else _PLAIN
        self._block_bytes_max = block_bytes_max
        self._blocks = bytearray()
        self._index: list[tuple[int, int, bytes]] = []
        self._current = bytearray()
        self._first_key = b""
        self._last_key: bytes | None = None
        self._previous = _NO_BLOCK
        self._added = self._copied = self._key_bytes = self._value_bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        """Add an entry. Raises InvalidDataError where its key is not above all before."""
        self._require_above(key)
        if len(self._current) + len(key) + len(value) > self._block_bytes_max:
            self._end_block()
        if not self._current:
            self._first_key = key
        field_bytes = 2 + len(key) + len(KEY_TAIL)
        self._current += _ENTRY.pack(field_bytes, len(value), len(key))
        self._current += key + KEY_TAIL + value + b"\0"
        self._last_key = key
        self._added += 1
        self._key_bytes += len(key)
        self._value_bytes += len(value)

    def add_block(
        self,
        content: bytes | memoryview,
        *,
        first_key: bytes,
        last_key: bytes,
        entries: int,
        key_bytes: int,
        value_bytes: int,
    ) -> None:
        """Add a data block of entries that ascend, of so many bytes of keys and of values. Raises
        likewise."""
        self._require_above(first_key)
        self._end_block()
        self._current += content
        self._first_key, self._last_key = first_key, last_key
        self._end_block()
        self._added += entries
        self._key_bytes += key_bytes
        self._value_bytes += value_bytes

    def copy(self, body: bytes, block: Block) -> None:
        """Add a data block of another file, as it is stored there."""
        self._require_above(block.first_key)
        self._end_block()
        at = len(self._blocks)
        magic, on_disk, content_bytes, _, *rest = _HEADER.unpack_from(body, block.offset)
        self._blocks += _HEADER.pack(magic, on_disk, content_bytes, self._previous, *rest)
        self._blocks += body[block.offset + _HEADER.size : block.offset + block.size_bytes]
        self._index.append((at, block.size_bytes, block.first_key))
        self._previous, self._last_key = at, block.first_key

    def count_copied(self, entries: int) -> None:
        """Say how many entries the blocks that were copied hold together."""
        self._copied += entries

    def finish(self, info: Mapping[str, bytes]) -> bytes:
        """The file, with what its owner says of it."""
        self._end_block()
        last = self._last_key or b""
        means = max(self._added, 1)
        said = {
            **info,
            # With its length, also in a file without keys: HBase's reader asks for that.
            "hfile.LASTKEY": struct.pack(">h", len(last)) + last,
            "hfile.AVG_KEY_LEN": struct.pack(">i", self._key_bytes // means),
            "hfile.AVG_VALUE_LEN": struct.pack(">i", self._value_bytes // means),
            "MAX_MEMSTORE_TS_KEY": bytes(8),
            "KEY_VALUE_VERSION": struct.pack(">i", 1),
        }
        pairs = (_bytes_field(1, name.encode()) + _bytes_field(2, said[name]) for name in said)
        message = b"".join(_bytes_field(1, pair) for pair in pairs)
        load_at = len(self._blocks)
        index = b"".join(
            _INDEX_ENTRY.pack(at, size)
            + _hadoop_number(len(key) + 2)
            + struct.pack(">h", len(key))
            + key
            for at, size, key in self._index
        )
        self._append(_INDEX, index)
        self._append(_INDEX, b"")
        info_at = len(self._blocks)
        self._append(_FILE_INFO, b"PBUF" + _varint(len(message)) + message)
        trailer = self._trailer(info_at, load_at)
        return bytes(self._blocks) + trailer

    def _require_above(self, key: bytes) -> None:
        if self._last_key is not None and key <= self._last_key:
            raise InvalidDataError("keys of an HFile must ascend", value=key)

    def _trailer(self, info_at: int, load_at: int) -> bytes:
        first, last = (self._index[0][0], self._index[-1][0]) if self._index else (-1, 0)
        numbers = {
            _INFO_AT: info_at,
            LOAD_AT: load_at,
            _INDEX_BYTES: self._key_bytes + self._value_bytes,
            _DATA_BLOCKS: len(self._index),
            _META_BLOCKS: 0,
            _ENTRIES: self._added + self._copied,
            _LEVELS: 1,
            _FIRST_AT: first % 2**64,
            _LAST_AT: last,
        }
        message = b"".join(_number_field(name, value) for name, value in numbers.items())
        message += _bytes_field(_COMPARED_BY, _COMPARATOR) + _number_field(_CODEC, self._codec)
        content = _TRAILER + _varint(len(message)) + message
        return content.ljust(TRAILER_BYTES - 1, b"\0") + bytes([_MAJOR_VERSION])

    def _end_block(self) -> None:
        if not self._current:
            return
        at = len(self._blocks)
        self._append(_DATA, bytes(self._current), previous=self._previous)
        self._index.append((at, len(self._blocks) - at, self._first_key))
        self._previous = at
        self._current.clear()

    def _append(self, magic: bytes, content: bytes, previous: int = _NO_BLOCK) -> None:
        stored = gzip.compress(content, _GZIP_LEVEL, mtime=0) if self._codec == _GZIP else content
        end = _HEADER.size + len(stored)
        checksums = bytes(4 * -(-end // _BYTES_PER_CHECKSUM))
        self._blocks += _HEADER.pack(
            magic,
            len(stored) + len(checksums),
            len(content),
            previous,
            0,
            _BYTES_PER_CHECKSUM,
            end,
        )
        self._blocks += stored + checksums


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _number_field(name: int, value: int) -> bytes:
    return _varint(name << 3) + _varint(value)


def _bytes_field(name: int, value: bytes) -> bytes:
    return _varint(name << 3 | 2) + _varint(len(value)) + value


def _hadoop_number(value: int) -> bytes:
    """A whole number from 0 on as Hadoop's WritableUtils write it."""
    if value <= 127:
        return bytes([value])
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return struct.pack("b", -112 - len(digits)) + digits


def _read_hadoop_number(body: bytes, at: int) -> tuple[int, int]:
    first = struct.unpack_from("b", body, at)[0]
    if first >= -112:
        return first, at + 1
    is_negative = first < -120
    length = -120 - first if is_negative else -112 - first
    value = int.from_bytes(body[at + 1 : at + 1 + length], "big")
    return (~value if is_negative else value), at + 1 + length
