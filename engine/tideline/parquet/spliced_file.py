"""A new parquet file put together from row groups of others, copied as they are stored.

1. `append` copies the pages of a row group, a few megabytes at a time, and gives the places in its
   footer entry the distance they have moved. Encodings, codecs, checksums and statistics stay.
   Some of its columns may be another file's, which has the same rows: they lie where those they
   replace would lie, because readers take the place of the first column for the row group's.
   With a transcoder the pages of columns in other codecs are recompressed, and the rest is as
   for copied ones.
2. Bloom filters follow the pages of their row group, when the source says how long they are.
3. `finish` writes the page indexes, with the places in them moved too, and the footer. Where some
   columns of a row group have none the caller leaves all of them out: not every reader copes.

The schema and the orders of the columns are those of the first source, or of the one that is named
when the file is opened; others must have the same nodes (see schema_nodes). Key-value pairs are the
caller's: those of sources are about their rows.
Memory holds one part of a row group, or a column of it for the transcoder, the page indexes and
the footer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.parquet.compact_protocol import (
    Kind,
    Struct,
    Values,
    encode_struct,
)
from tideline.parquet.page_index import PageIndex, bloom_filter, moved_page_index
from tideline.parquet.page_places import (
    CopiedPages,
    PagePlaces,
    TranscodedPages,
)
from tideline.parquet.schema_nodes import SchemaNode, schema_nodes, top_columns
from tideline.parquet.stored_footer import (
    MAGIC,
    ChunkField,
    Codec,
    ColumnField,
    FooterField,
    GroupField,
    ReadRange,
    StoredChunk,
    StoredFooter,
    StoredRowGroup,
    are_in_codec,
    file_tail,
    read_stored_footer,
)
from tideline.parquet.stored_page import NewPage

_READ_BYTES_MAX = 8 * 1024 * 1024
_VERSION = 2
_ORDINAL_MAX = 0x7FFF
_PLACES = (ColumnField.DATA_PAGE, ColumnField.INDEX_PAGE, ColumnField.DICTIONARY_PAGE)


@dataclass(frozen=True)
class StoredParquet:
    """A file whose row groups can be copied: ranges of its bytes, and its footer."""

    read: ReadRange
    footer: StoredFooter
    nodes: tuple[SchemaNode, ...]
    path: str

    @classmethod
    def open(cls, read: ReadRange, size_bytes: int, *, path: str) -> StoredParquet:
        """Raises what `read_stored_footer` raises."""
        footer = read_stored_footer(read, size_bytes, path=path)
        return cls(read, footer, schema_nodes(footer, path=path), path)

    @classmethod
    def of_bytes(cls, body: memoryview, *, path: str) -> StoredParquet:
        """A file in memory."""
        return cls.open(lambda at, length: bytes(body[at : at + length]), len(body), path=path)


class Transcoder(Protocol):
    """Makes pages of one codec out of those of others."""

    codec: Codec

    def pages(self, chunk: StoredChunk, body: bytes, *, path: str) -> Iterator[NewPage]:
        """The pages of a chunk, whose bytes these are. Raises CorruptTableError naming `path`."""


@dataclass(frozen=True, slots=True)
class _SourceChunk:
    """The pages of one column, where they are."""

    source: StoredParquet
    chunk: StoredChunk


class SplicedFile:
    """A parquet file that is written, row group by row group.

    `columns_of` is a file with its columns; without `keeps_indexes` it has no page indexes.
    """

    def __init__(
        self,
        sink: BinaryIO,
        *,
        created_by: str,
        columns_of: StoredParquet | None = None,
        keeps_indexes: bool = True,
    ) -> None:
        self._sink = sink
        self._created_by = created_by
        self._keeps_indexes = keeps_indexes
        self._first = columns_of
        self._groups: list[Struct] = []
        self._rows = 0
        self._indexes: list[tuple[Struct, PageIndex]] = []
        self.size_bytes = 0
        self._write(MAGIC)

    @property
    def rows(self) -> int:
        """Of all row groups so far."""
        return self._rows

    def append(
        self,
        source: StoredParquet,
        group: StoredRowGroup,
        replacing: StoredParquet | None = None,
        transcoder: Transcoder | None = None,
    ) -> None:
        """Copy a row group of a source, but the columns that `replacing` has from there: a file of
        one row group with as many rows. Columns of other codecs than the transcoder's go through
        it.

        Raises UnsupportedTableError when its columns are not those of the file, CorruptTableError
        when the source ends before its pages do, and what reading it raises.
        """
        if self._first is None:
            self._first = source
        elif source.nodes != self._first.nodes:
            message = "row groups of other columns cannot stand in one file"
            raise UnsupportedTableError(message, path=source.path)
        with faults_named("a row group cannot be copied", path=source.path):
            source_chunks = [_SourceChunk(source, chunk) for chunk in group.chunks]
            if replacing is not None:
                _replace(source_chunks, source, replacing, group.rows)
            self._append(group, source_chunks, transcoder)
            if replacing is not None:
                self._groups[-1].drop(GroupField.SORTING)

    def append_columns(self, parts: Sequence[StoredParquet]) -> None:
        """Make one row group of files of one row group each, with the columns of the file that was
        named when this one was opened: divided among them, in their order.

        Raises UnsupportedTableError when these are other columns, or not as many rows in each.
        """
        assert self._first is not None, "the columns are named when the file is opened"
        groups = [group for part in parts for group in part.footer.row_groups]
        nodes = tuple(node for part in parts for node in part.nodes)
        if nodes != self._first.nodes or len({group.rows for group in groups}) != 1:
            message = "columns of other files, or of other rows, cannot stand in one row group"
            raise UnsupportedTableError(message, path=parts[0].path)
        chunks = [
            _SourceChunk(part, chunk)
            for part, group in zip(parts, groups, strict=True)
            for chunk in group.chunks
        ]
        self._append(groups[0], chunks, None)

    def finish(self, key_values: Mapping[str, str]) -> bytes:
        """Write what comes after the pages. The footer, without its length and magic number."""
        assert self._first is not None, "a parquet file has the columns of a source"
        self._write_indexes()
        footer = encode_struct(self._footer(self._first.footer, key_values))
        self._write(footer)
        self._write(file_tail(footer))
        return footer

    def _write(self, body: bytes | memoryview) -> int:
        """Where the bytes begin in the file."""
        at = self.size_bytes
        self._sink.write(body)
        self.size_bytes += len(body)
        return at

    def _append(
        self,
        group: StoredRowGroup,
        source_chunks: list[_SourceChunk],
        transcoder: Transcoder | None,
    ) -> None:
        placed = self._put_pages(source_chunks, transcoder)
        chunks = [
            self._moved_chunk(source_chunk.source, source_chunk.chunk, places)
            for source_chunk, places in zip(source_chunks, placed, strict=True)
        ]
        entry = group.struct.copy()
        entry.put(
            GroupField.COLUMNS,
            Kind.LIST,
            Values(Kind.STRUCT, [stored_chunk.struct for stored_chunk in chunks]),
        )
        grown = sum(stored_chunk.uncompressed_bytes for stored_chunk in chunks) - sum(
            stored_chunk.uncompressed_bytes for stored_chunk in group.chunks
        )
        entry.put(GroupField.BYTES, Kind.I64, group.struct.get(GroupField.BYTES) + grown)
        entry.put(GroupField.FILE_OFFSET, Kind.I64, chunks[0].start)
        compressed_bytes = sum(chunk.size_bytes for chunk in chunks)
        entry.put(GroupField.COMPRESSED_BYTES, Kind.I64, compressed_bytes)
        entry.drop(GroupField.ORDINAL)
        if len(self._groups) <= _ORDINAL_MAX:
            entry.put(GroupField.ORDINAL, Kind.I16, len(self._groups))
        self._groups.append(entry)
        self._rows += group.rows

    def _put_pages(
        self, source_chunks: list[_SourceChunk], transcoder: Transcoder | None
    ) -> list[PagePlaces]:
        """Copy neighbouring columns together, and transcode others; where the pages are."""
        placed: list[PagePlaces] = [CopiedPages(0)] * len(source_chunks)
        run: StoredParquet | None = None
        start = end = 0
        if transcoder is not None and are_in_codec(
            (source_chunk.chunk for source_chunk in source_chunks), transcoder.codec
        ):
            transcoder = None
        for number, (source, chunk) in enumerate(
            (source_chunk.source, source_chunk.chunk) for source_chunk in source_chunks
        ):
            if not chunk.size_bytes:
                continue
            if transcoder is not None and chunk.codec != transcoder.codec:
                self._copy(run, start, end)
                run = None
                placed[number] = self._transcode(source, chunk, transcoder)
                continue
            if source is not run or chunk.start != end:
                self._copy(run, start, end)
                run, start = source, chunk.start
            end = chunk.start + chunk.size_bytes
            placed[number] = CopiedPages(self.size_bytes - start)
        self._copy(run, start, end)
        return placed

    def _copy(self, source: StoredParquet | None, start: int, end: int) -> None:
        while source is not None and start < end:
            wanted = min(_READ_BYTES_MAX, end - start)
            self._write(_pages_of(source, start, wanted))
            start += wanted

    def _transcode(
        self, source: StoredParquet, chunk: StoredChunk, transcoder: Transcoder
    ) -> PagePlaces:
        body = _pages_of(source, chunk.start, chunk.size_bytes)
        pages: dict[int, tuple[int, int]] = {}
        header_growth_bytes = 0
        for page in transcoder.pages(chunk, body, path=source.path):
            pages[page.was_at] = self.size_bytes, page.size_bytes
            header_growth_bytes += page.header_growth_bytes
            self._write(page.header)
            for part in page.body:
                self._write(part)
        return TranscodedPages(pages, transcoder.codec, header_growth_bytes)

    def _moved_chunk(
        self, source: StoredParquet, chunk: StoredChunk, places: PagePlaces
    ) -> StoredChunk:
        metadata = chunk.metadata.copy()
        if chunk.size_bytes:
            for place in _PLACES:
                if metadata.get(place):
                    metadata.put(place, Kind.I64, places.start(metadata.get(place)))
        if isinstance(places, TranscodedPages):
            uncompressed_bytes = chunk.uncompressed_bytes + places.header_growth_bytes
            metadata.put(ColumnField.CODEC, Kind.I32, places.codec)
            metadata.put(ColumnField.UNCOMPRESSED_BYTES, Kind.I64, uncompressed_bytes)
            metadata.put(ColumnField.COMPRESSED_BYTES, Kind.I64, places.chunk_bytes)
        metadata.drop(ColumnField.BLOOM_OFFSET)
        metadata.drop(ColumnField.BLOOM_BYTES)
        bloom = bloom_filter(source.read, chunk)
        if bloom is not None:
            metadata.put(ColumnField.BLOOM_OFFSET, Kind.I64, self._write(bloom))
            metadata.put(ColumnField.BLOOM_BYTES, Kind.I32, len(bloom))
        entry = chunk.struct.copy()
        for field in _INDEX_FIELDS:
            entry.drop(field)
        entry.put(ChunkField.METADATA, Kind.STRUCT, metadata)
        # Of no use to any reader, and without one meaning among writers.
        entry.put(ChunkField.FILE_OFFSET, Kind.I64, 0)
        if self._keeps_indexes:
            index = moved_page_index(source.read, chunk, places)
            if index is not None:
                self._indexes.append((entry, index))
        return StoredChunk(entry)

    def _write_indexes(self) -> None:
        """All column indexes, then all offset indexes, as the format wants them."""
        for entry, index in self._indexes:
            if index.column_index is not None:
                at, length = self._write(index.column_index), len(index.column_index)
                entry.put(ChunkField.COLUMN_INDEX_OFFSET, Kind.I64, at)
                entry.put(ChunkField.COLUMN_INDEX_BYTES, Kind.I32, length)
        for entry, index in self._indexes:
            at, length = self._write(index.offset_index), len(index.offset_index)
            entry.put(ChunkField.OFFSET_INDEX_OFFSET, Kind.I64, at)
            entry.put(ChunkField.OFFSET_INDEX_BYTES, Kind.I32, length)

    def _footer(self, first: StoredFooter, key_values: Mapping[str, str]) -> Struct:
        footer = Struct()
        footer.put(FooterField.VERSION, Kind.I32, _VERSION)
        footer.put(FooterField.SCHEMA, Kind.LIST, first.struct.get(FooterField.SCHEMA))
        footer.put(FooterField.ROWS, Kind.I64, self._rows)
        footer.put(FooterField.ROW_GROUPS, Kind.LIST, Values(Kind.STRUCT, self._groups))
        pairs = [_key_value(key, value) for key, value in key_values.items()]
        footer.put(FooterField.KEY_VALUES, Kind.LIST, Values(Kind.STRUCT, pairs))
        footer.put(FooterField.CREATED_BY, Kind.BINARY, self._created_by.encode())
        orders = first.struct.get(FooterField.COLUMN_ORDERS)
        if orders is not None:
            footer.put(FooterField.COLUMN_ORDERS, Kind.LIST, orders)
        return footer


_INDEX_FIELDS = (
    ChunkField.OFFSET_INDEX_OFFSET,
    ChunkField.OFFSET_INDEX_BYTES,
    ChunkField.COLUMN_INDEX_OFFSET,
    ChunkField.COLUMN_INDEX_BYTES,
)


def _pages_of(source: StoredParquet, start: int, size_bytes: int) -> bytes:
    found = source.read(start, size_bytes)
    if len(found) != size_bytes:
        message = "a parquet file is cut short: pages are missing"
        raise CorruptTableError(message, path=source.path)
    return found


def _replace(
    source_chunks: list[_SourceChunk], source: StoredParquet, replacing: StoredParquet, rows: int
) -> None:
    """Put the columns of another file in the place of those of a row group."""
    (group,) = replacing.footer.row_groups
    if group.rows != rows:
        raise ValueError(f"columns of {group.rows} rows for a row group of {rows}")
    chunks = group.chunks
    stored = top_columns(source.nodes)
    for name, column in top_columns(replacing.nodes).items():
        if stored[name].nodes != column.nodes:
            raise ValueError(f"column {name} is stored in another way")
        for old, new in zip(stored[name].leaves, column.leaves, strict=True):
            source_chunks[old] = _SourceChunk(replacing, chunks[new])


def _key_value(key: str, value: str) -> Struct:
    pair = Struct()
    pair.put(1, Kind.BINARY, key.encode())
    pair.put(2, Kind.BINARY, value.encode())
    return pair
