"""The pages of a column chunk as they are stored: a header in Thrift, then the bytes of the page.

Source: parquet-format, "Data Pages" and `PageHeader` of `parquet.thrift`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError
from tideline.parquet.compact_protocol import (
    Kind,
    Struct,
    decode_struct_at,
    encode_struct,
)
from tideline.parquet.stored_footer import StoredChunk

_INT32 = 1 << 32
_INT32_MAX = 0x7FFF_FFFF


class PageField(IntEnum):
    """Of PageHeader."""

    TYPE = 1
    UNCOMPRESSED_BYTES = 2
    STORED_BYTES = 3
    CRC = 4
    DATA_V2 = 8


class DataV2Field(IntEnum):
    """Of DataPageHeaderV2."""

    DEFINITION_LEVELS_BYTES = 5
    REPETITION_LEVELS_BYTES = 6
    IS_COMPRESSED = 7


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One page; `at` is where its header begins in the file, `levels_bytes` how much of its body
    never is compressed."""

    at: int
    header: Struct
    header_bytes: int
    body: memoryview
    uncompressed_bytes: int
    levels_bytes: int
    is_compressed: bool
    """As far as its header says; the chunk's codec may be none."""

    @property
    def may_stay_uncompressed(self) -> bool:
        """Whether its header can say that it is, whatever the chunk's codec: one of version 2."""
        return self.header.get(PageField.DATA_V2) is not None


@dataclass(frozen=True, slots=True)
class NewPage:
    """What a page becomes: its header and its body, and where it was."""

    was_at: int
    header: bytes
    body: tuple[memoryview, ...]
    header_growth_bytes: int

    @property
    def size_bytes(self) -> int:
        return len(self.header) + sum(part.nbytes for part in self.body)


def stored_pages(chunk: StoredChunk, body: bytes, *, path: str) -> Iterator[StoredPage]:
    """The pages of a chunk, whose bytes these are, in their order.

    Raises CorruptTableError naming `path` for pages that do not fill the chunk, and for one that
    its checksum does not fit.
    """
    with faults_named("the pages of a parquet file are broken", path=path):
        view, at = memoryview(body), 0
        while at < len(body):
            header, begin = decode_struct_at(body, at)
            end = begin + _size(header, PageField.STORED_BYTES)
            if end > len(body):
                raise EOFError(f"a page ends at {end} of {len(body)} bytes")
            page = _page(chunk.start + at, header, begin - at, view[begin:end])
            if page.uncompressed_bytes > chunk.uncompressed_bytes:
                raise ValueError("a page is larger than its column")
            _check(page, path)
            yield page
            at = end


def new_page(page: StoredPage, body: tuple[memoryview, ...], *, is_compressed: bool) -> NewPage:
    """The same values in other bytes, with a checksum where the page had one."""
    header = page.header.copy()
    size_bytes = sum(part.nbytes for part in body)
    if size_bytes > _INT32_MAX:
        raise ValueError(f"a page of {size_bytes} bytes")
    header.put(PageField.STORED_BYTES, Kind.I32, size_bytes)
    if header.get(PageField.CRC) is not None:
        header.put(PageField.CRC, Kind.I32, _checksum(body))
    of_data = header.get(PageField.DATA_V2)
    if of_data is not None:
        changed = of_data.copy()
        changed.put(DataV2Field.IS_COMPRESSED, Kind.TRUE, is_compressed)
        header.put(PageField.DATA_V2, Kind.STRUCT, changed)
    encoded = encode_struct(header)
    return NewPage(page.at, encoded, body, len(encoded) - page.header_bytes)


def _page(at: int, header: Struct, header_bytes: int, body: memoryview) -> StoredPage:
    uncompressed = _size(header, PageField.UNCOMPRESSED_BYTES)
    of_data = header.get(PageField.DATA_V2)
    levels, is_compressed = 0, True
    if of_data is not None:
        levels = _size(of_data, DataV2Field.DEFINITION_LEVELS_BYTES)
        levels += _size(of_data, DataV2Field.REPETITION_LEVELS_BYTES)
        is_compressed = of_data.get(DataV2Field.IS_COMPRESSED) is not False
    if levels > min(len(body), uncompressed):
        raise ValueError(f"{levels} bytes of levels in a page of {len(body)}")
    return StoredPage(at, header, header_bytes, body, uncompressed, levels, is_compressed)


def _size(struct: Struct, number: int) -> int:
    size = int(struct.get(number))
    if size < 0:
        raise ValueError(f"a size of {size}")
    return size


def _check(page: StoredPage, path: str) -> None:
    expected = page.header.get(PageField.CRC)
    if expected is not None and expected != _checksum((page.body,)):
        message = "a page of a parquet file does not fit its checksum"
        raise CorruptTableError(message, path=path, value=page.at)


def _checksum(body: tuple[memoryview, ...]) -> int:
    """Signed, as the format has it."""
    found = 0
    for part in body:
        found = zlib.crc32(part, found)
    return found - _INT32 if found > _INT32_MAX else found
