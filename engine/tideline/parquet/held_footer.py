"""A parquet file whose footer waits until it is known which bounds may stand in it.

Arrow is told when a file is opened which columns get statistics. Which row groups have NaN, which
Arrow leaves out of them, is known as they are written; the footer comes last.

Source: parquet-format, "Statistics" (`parquet.thrift`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import BinaryIO

from tideline.parquet.compact_protocol import (
    Kind,
    Struct,
    decode_struct,
    encode_struct,
)
from tideline.parquet.stored_footer import (
    TAIL_BYTES,
    ChunkField,
    ColumnField,
    ElementField,
    FooterField,
    GroupField,
    StatisticsField,
    file_tail,
)

Chunk = tuple[int, int]
"""A row group and a leaf column, by their numbers."""

_VARIANT, _VERSION = 16, 1
"""Of the union of logical types, and of VariantType."""
_BOUNDS = tuple(field for field in StatisticsField if field is not StatisticsField.NULLS)


class HeldFooter:
    """The stream that a parquet writer is given; the footer is what it writes after `hold`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held: bytearray | None = None
        self.size_bytes = 0
        """Of the file so far."""
        self.closed = False

    def write(self, body: bytes) -> int:
        if self._held is not None:
            self._held += body
        else:
            self._stream.write(body)
            self.size_bytes += len(body)
        return len(body)

    def flush(self) -> None:
        self._stream.flush()

    def hold(self) -> None:
        """Keep what is written from here on."""
        self._held = bytearray()

    def release(self, without_bounds: Collection[Chunk], variants: Collection[str] = ()) -> bytes:
        """Write the footer, the statistics of these columns without bounds, columns of these names
        as variants; what was written, the bloom filters in front of it included."""
        assert self._held is not None, "nothing is held"
        body, self._held = bytes(self._held), None
        is_whole = not without_bounds and not variants
        written = body if is_whole else _edited(body, without_bounds, variants)
        self.write(written)
        return written


def _edited(held: bytes, without_bounds: Collection[Chunk], variants: Collection[str]) -> bytes:
    end = len(held) - TAIL_BYTES
    # Bloom filters are written when the file is closed, too.
    start = end - int.from_bytes(held[end : end + 4], "little")
    struct = decode_struct(held[start:end])
    groups = struct.get(FooterField.ROW_GROUPS).items
    for group, leaf in without_bounds:
        chunk: Struct = groups[group].get(GroupField.COLUMNS).items[leaf]
        statistics = chunk.get(ChunkField.METADATA).get(ColumnField.STATISTICS)
        if statistics is not None:
            for bound in _BOUNDS:
                statistics.drop(bound)
    if variants:
        _mark_variants(struct.get(FooterField.SCHEMA).items, variants)
    body = encode_struct(struct)
    return held[:start] + body + file_tail(body)


def _mark_variants(elements: Sequence[Struct], names: Collection[str]) -> None:
    """Say of the columns of these names that they are variants: Arrow writes structs."""
    at = 1
    while at < len(elements):
        column = elements[at]
        if column.get(ElementField.NAME).decode() in names:
            version = Struct({_VERSION: (int(Kind.BYTE), 1)})
            meaning = Struct({_VARIANT: (int(Kind.STRUCT), version)})
            column.put(ElementField.MEANING, Kind.STRUCT, meaning)
        inside = 1
        while inside:
            inside += (elements[at].get(ElementField.CHILDREN) or 0) - 1
            at += 1
