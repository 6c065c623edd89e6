"""A parquet file's footer as it is stored, and where the bytes of its row groups lie.

1. The last bytes of a file say how long its footer is; most footers come with that request.
2. The footer is kept as Thrift has it, and read through the values below.
3. What it says of places is held against the file: a row group's pages lie within the file, and no
   two columns share bytes.

Source: parquet-format, `parquet.thrift` and "File format".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from math import isnan
from struct import unpack
from typing import Any

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import admit, too_many_columns
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.parquet.compact_protocol import Struct, Values, decode_struct

MAGIC = b"PAR1"
TAIL_BYTES = 8
_ENCRYPTED_MAGIC = b"PARE"
_FIRST_REQUEST_BYTES = 64 * 1024
_PARQUET_MR = re.compile(r"parquet-mr version (\d+)\.(\d+)")
_PARQUET_MR_SOUND = (1, 10)

ReadRange = Callable[[int, int], bytes]
"""Up to `length` bytes of a file from `offset` on."""


class FooterField(IntEnum):
    """Of FileMetaData."""

    VERSION = 1
    SCHEMA = 2
    ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUES = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7
    ENCRYPTION = 8


class ElementField(IntEnum):
    """Of SchemaElement."""

    NAME = 4
    CHILDREN = 5
    MEANING = 10


class GroupField(IntEnum):
    """Of RowGroup."""

    COLUMNS = 1
    BYTES = 2
    ROWS = 3
    SORTING = 4
    FILE_OFFSET = 5
    COMPRESSED_BYTES = 6
    ORDINAL = 7


class ChunkField(IntEnum):
    """Of ColumnChunk."""

    FILE_PATH = 1
    FILE_OFFSET = 2
    METADATA = 3
    OFFSET_INDEX_OFFSET = 4
    OFFSET_INDEX_BYTES = 5
    COLUMN_INDEX_OFFSET = 6
    COLUMN_INDEX_BYTES = 7
    CRYPTO = 8
    ENCRYPTED_METADATA = 9


class ColumnField(IntEnum):
    """Of ColumnMetaData."""

    ENCODINGS = 2
    CODEC = 4
    VALUES = 5
    UNCOMPRESSED_BYTES = 6
    COMPRESSED_BYTES = 7
    DATA_PAGE = 9
    INDEX_PAGE = 10
    DICTIONARY_PAGE = 11
    STATISTICS = 12
    BLOOM_OFFSET = 14
    BLOOM_BYTES = 15


class StatisticsField(IntEnum):
    """Of Statistics; the first two are bounds in the order of bytes, of old writers."""

    OLD_GREATEST = 1
    OLD_LEAST = 2
    NULLS = 3
    GREATEST = 5
    LEAST = 6
    GREATEST_IS_EXACT = 7
    LEAST_IS_EXACT = 8


class Codec(IntEnum):
    """How pages are compressed."""

    UNCOMPRESSED = 0
    SNAPPY = 1
    GZIP = 2
    LZO = 3
    BROTLI = 4
    LZ4 = 5
    ZSTD = 6
    LZ4_RAW = 7


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """What a column chunk's statistics say, as far as readers may rely on it."""

    nulls: int | None
    bounds: tuple[bytes, bytes] | None
    """The least and the greatest value in the order of the column's type, as plain pages have
    them."""
    is_exact: bool
    """Neither of them is a cut text."""

    def has_nan(self, number_format: str) -> bool:
        """Whether a bound is NaN: some writers let it be the greatest value. The format is that of
        `struct` for the column's floating point numbers."""
        return any(isnan(*unpack(number_format, bound)) for bound in self.bounds or ())


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """One column of a row group."""

    struct: Struct

    @property
    def metadata(self) -> Struct:
        found: Struct = self.struct.get(ChunkField.METADATA)
        return found

    @property
    def codec(self) -> int:
        return int(self.metadata.get(ColumnField.CODEC))

    @property
    def values(self) -> int:
        """How many it has, nulls included."""
        return int(self.metadata.get(ColumnField.VALUES))

    @property
    def start(self) -> int:
        """Where its first page begins."""
        # Writers put a zero where they have no such page.
        places = (ColumnField.DICTIONARY_PAGE, ColumnField.INDEX_PAGE, ColumnField.DATA_PAGE)
        return min((int(self.metadata.get(place)) for place in places if self.metadata.get(place)),
                   default=0)  # fmt: skip

    @property
    def uncompressed_bytes(self) -> int:
        """Of all its pages with their headers, decompressed."""
        return int(self.metadata.get(ColumnField.UNCOMPRESSED_BYTES))

    @property
    def size_bytes(self) -> int:
        """Of all its pages with their headers."""
        return int(self.metadata.get(ColumnField.COMPRESSED_BYTES))

    @property
    def has_bloom_filter(self) -> bool:
        return bool(self.metadata.get(ColumnField.BLOOM_OFFSET))

    @property
    def statistics(self) -> ChunkStatistics:
        stored = self.metadata.get(ColumnField.STATISTICS)
        if stored is None:
            return ChunkStatistics(None, None, False)
        greatest = stored.get(StatisticsField.GREATEST)
        least = stored.get(StatisticsField.LEAST)
        return ChunkStatistics(
            nulls=stored.get(StatisticsField.NULLS),
            bounds=None if least is None or greatest is None else (least, greatest),
            is_exact=stored.get(StatisticsField.GREATEST_IS_EXACT) is not False
            and stored.get(StatisticsField.LEAST_IS_EXACT) is not False,
        )


def are_in_codec(chunks: Iterable[StoredChunk], codec: Codec) -> bool:
    """Whether these columns of a row group are in a codec: one that it hardly makes smaller may be
    uncompressed, next to those that are in it."""
    found = {chunk.codec for chunk in chunks}
    return codec in found and found <= {codec, Codec.UNCOMPRESSED}


@dataclass(frozen=True, slots=True)
class StoredRowGroup:
    """A row group; `first_row` is the position of its first row in the file."""

    struct: Struct
    first_row: int

    @property
    def chunks(self) -> list[StoredChunk]:
        return [StoredChunk(item) for item in self.struct.get(GroupField.COLUMNS).items]

    @property
    def rows(self) -> int:
        return int(self.struct.get(GroupField.ROWS))

    @property
    def start(self) -> int:
        """Where readers find that it begins: at its first column."""
        return self.chunks[0].start

    @property
    def end(self) -> int:
        """Where its last page ends."""
        return max(chunk.start + chunk.size_bytes for chunk in self.chunks)

    @property
    def size_bytes(self) -> int:
        """Of the pages of all its columns, as stored."""
        return sum(chunk.size_bytes for chunk in self.chunks)

    def is_in_codec(self, codec: Codec) -> bool:
        """Whether new files with this codec have columns that are compressed as its own are."""
        return are_in_codec(self.chunks, codec)


@dataclass(frozen=True)
class StoredFooter:
    """The footer of one file."""

    struct: Struct

    @cached_property
    def row_groups(self) -> tuple[StoredRowGroup, ...]:
        return tuple(_numbered(self.struct.get(FooterField.ROW_GROUPS)))

    @property
    def created_by(self) -> str:
        """The writer's name and version, empty when it does not say."""
        return (self.struct.get(FooterField.CREATED_BY) or b"").decode("utf-8", "replace")

    @property
    def has_sound_statistics(self) -> bool:
        """Whether readers rely on its bounds: all in the order of their type, by a writer that has
        not put down wrong ones.

        Source: PARQUET-251, PARQUET-816 and PARQUET-1025, which newer writers do not have.
        """
        orders = self.struct.get(FooterField.COLUMN_ORDERS)
        if orders is None or not all(list(item.fields) == [1] for item in orders.items):
            return False
        name = self.created_by
        found = _PARQUET_MR.match(name)
        if found is not None:
            return (int(found[1]), int(found[2])) >= _PARQUET_MR_SOUND
        return bool(name) and not name.startswith(("parquet-mr", "parquet-cpp version"))


def read_stored_footer(read: ReadRange, size_bytes: int, *, path: object = None) -> StoredFooter:
    """The footer of a file of so many bytes.

    Raises CorruptTableError for what is no parquet file, UnsupportedTableError for an encrypted one
    and for a footer beyond the limits on metadata; and what `read` raises.
    """
    tail = read(max(0, size_bytes - _FIRST_REQUEST_BYTES), min(size_bytes, _FIRST_REQUEST_BYTES))
    magic = tail[-len(MAGIC) :]
    if magic == _ENCRYPTED_MAGIC:
        raise UnsupportedTableError(
            "a parquet file is encrypted: rewrite it without encryption", path=path
        )
    if magic != MAGIC or size_bytes < len(MAGIC) + TAIL_BYTES:
        raise CorruptTableError("not a parquet file", path=path)
    length = int.from_bytes(tail[-TAIL_BYTES : -len(MAGIC)], "little")
    if length > size_bytes - len(MAGIC) - TAIL_BYTES:
        message = "a parquet file is cut short: its footer is longer than the file"
        raise CorruptTableError(message, path=path, value=length)
    admit(length, path=path, what="the footer of a parquet file")
    if length + TAIL_BYTES > len(tail):
        tail = read(size_bytes - TAIL_BYTES - length, length + TAIL_BYTES)
    return parse_footer(
        tail[len(tail) - TAIL_BYTES - length : -TAIL_BYTES],
        data_bytes=size_bytes - TAIL_BYTES - length,
        path=path,
    )


def parse_footer(body: bytes, *, data_bytes: int, path: object = None) -> StoredFooter:
    """A footer of a file in which `data_bytes` come before it.

    Raises CorruptTableError and UnsupportedTableError naming `path`.
    """
    footer = StoredFooter(decode_struct(body, path=path))
    with faults_named("the footer of a parquet file is broken", path=path):
        if footer.struct.get(FooterField.ENCRYPTION) is not None:
            raise UnsupportedTableError("a parquet file is encrypted")
        leaves = sum(
            1 for struct in _structs(footer.struct, FooterField.SCHEMA) if not struct.get(5)
        )
        problem = too_many_columns(leaves)
        if problem is not None:
            raise UnsupportedTableError(problem)
        for group in footer.row_groups:
            _check_group(group, leaves, data_bytes)
        if sum(group.rows for group in footer.row_groups) != footer.struct.get(FooterField.ROWS):
            raise ValueError("the file and its row groups have different numbers of rows")
    return footer


def file_tail(footer: bytes) -> bytes:
    """What follows a footer and ends the file: its length, and the magic number."""
    return len(footer).to_bytes(TAIL_BYTES - len(MAGIC), "little") + MAGIC


def _numbered(groups: Any) -> Iterator[StoredRowGroup]:
    first = 0
    for item in groups.items:
        group = StoredRowGroup(item, first)
        yield group
        first += group.rows


def _structs(parent: Struct, number: int) -> list[Struct]:
    found: Values = parent.get(number)
    if not all(isinstance(item, Struct) for item in found.items):
        raise TypeError(f"field {number} is no list of structs")
    return found.items


def _check_group(group: StoredRowGroup, leaves: int, data_bytes: int) -> None:
    chunks = _structs(group.struct, GroupField.COLUMNS)
    if len(chunks) != leaves or not leaves:
        raise ValueError(f"{len(chunks)} columns in a row group of a file of {leaves}")
    for struct in chunks:
        if struct.get(ChunkField.CRYPTO) is not None or struct.get(ChunkField.ENCRYPTED_METADATA):
            raise UnsupportedTableError(
                "a column of a parquet file is encrypted: rewrite it without encryption"
            )
        if struct.get(ChunkField.FILE_PATH):
            raise UnsupportedTableError(
                "a column of a parquet file is in another file: rewrite it as one file"
            )
    if group.rows < 0 or any(chunk.size_bytes < 0 for chunk in group.chunks):
        raise ValueError("fewer than no rows or bytes")
    # Of a column without pages the writer may have put down any place.
    filled = [chunk for chunk in group.chunks if chunk.size_bytes]
    places = sorted((chunk.start, chunk.start + chunk.size_bytes) for chunk in filled)
    if places and (places[0][0] < len(MAGIC) or places[-1][1] > data_bytes):
        raise ValueError("a row group is not within the file")
    if any(end > start for (_, end), (start, _) in pairwise(places)):
        raise ValueError("two columns share bytes")
