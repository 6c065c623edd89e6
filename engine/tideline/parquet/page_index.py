"""What helps readers to skip pages of a column chunk, taken along when its row group is copied.

The column index (bounds of every page) has no places in it and stays as it is; the offset index has
the place of every page, which moves with the pages. A bloom filter is a run of bytes; one whose
length the footer does not give is left out, and so is an index that is broken: both only help.

Source: parquet-format, "Page Index" and "Bloom Filter".
"""

from __future__ import annotations

from dataclasses import dataclass

from tideline.bounded.parsing import faults_named
from tideline.bounded.read_limits import admit
from tideline.errors import TidelineError
from tideline.parquet.compact_protocol import (
    Kind,
    Struct,
    Values,
    decode_struct,
    encode_struct,
)
from tideline.parquet.page_places import PagePlaces
from tideline.parquet.stored_footer import (
    ChunkField,
    ColumnField,
    ReadRange,
    StoredChunk,
)

_PAGE_LOCATIONS = 1
_OFFSET = 1
_STORED_BYTES = 2


@dataclass(frozen=True, slots=True)
class PageIndex:
    """The indexes of one column chunk, with the places that pages have in the new file."""

    column_index: bytes | None
    offset_index: bytes


def moved_page_index(read: ReadRange, chunk: StoredChunk, places: PagePlaces) -> PageIndex | None:
    """The indexes of a chunk whose pages are elsewhere now; None when it has none."""
    offsets = _part(read, chunk, ChunkField.OFFSET_INDEX_OFFSET, ChunkField.OFFSET_INDEX_BYTES)
    if offsets is None:
        return None
    columns = _part(read, chunk, ChunkField.COLUMN_INDEX_OFFSET, ChunkField.COLUMN_INDEX_BYTES)
    try:
        with faults_named("an offset index is broken"):
            return PageIndex(columns, encode_struct(_moved(decode_struct(offsets), places)))
    except TidelineError:
        return None


def bloom_filter(read: ReadRange, chunk: StoredChunk) -> bytes | None:
    """The bloom filter of a chunk with its header; None when it has none of a known length."""
    at = chunk.metadata.get(ColumnField.BLOOM_OFFSET)
    length = chunk.metadata.get(ColumnField.BLOOM_BYTES)
    return None if not at or not length else _bytes(read, at, length)


def _part(
    read: ReadRange, chunk: StoredChunk, offset: ChunkField, length: ChunkField
) -> bytes | None:
    at, size_bytes = chunk.struct.get(offset), chunk.struct.get(length)
    return None if not at or not size_bytes else _bytes(read, at, size_bytes)


def _bytes(read: ReadRange, at: int, length: int) -> bytes | None:
    """None when the file does not have them."""
    if at < 0 or length < 0:
        return None
    admit(length, what="an index of a parquet file")
    found = read(at, length)
    return found if len(found) == length else None


def _moved(index: Struct, places: PagePlaces) -> Struct:
    """An offset index whose pages begin elsewhere."""
    pages = []
    for page in index.get(_PAGE_LOCATIONS).items:
        moved = page.copy()
        at = page.get(_OFFSET)
        moved.put(_OFFSET, Kind.I64, places.start(at))
        moved.put(_STORED_BYTES, Kind.I32, places.size_bytes(at, page.get(_STORED_BYTES)))
        pages.append(moved)
    result = index.copy()
    result.put(_PAGE_LOCATIONS, Kind.LIST, Values(Kind.STRUCT, pages))
    return result
