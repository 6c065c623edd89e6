"""Avro files of a table, block by block: the wanted fields and where each row lies.

1. The file's schema becomes an Arrow schema with its field ids (`avro_columns`), and one of the
   same bytes in which values are plain numbers and bytes.
2. The columns that are wanted are decoded by fastavro, the others stepped over.
3. Records of successive blocks are put into columns, a batch at a time.

Source: Iceberg's specification, Appendix A, "Avro".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from tideline.formats.avro import decode_blocks
from tideline.formats.avro_stream import AvroStream
from tideline.iceberg.data.avro_columns import AvroColumns
from tideline.iceberg.data.name_mapping import schema_with_ids
from tideline.iceberg.data.parquet_rows import PositionedRows
from tideline.iceberg.data.projection import Projection
from tideline.iceberg.data.whole_file import WholeFile
from tideline.iceberg.metadata.field_type import NestedField

_BATCH_ROWS = 16_384
_BATCH_BYTES = 8 * 1024 * 1024
"""Of decompressed records: in memory they are several times as large."""


@dataclass(frozen=True, slots=True)
class AvroSource(WholeFile):
    """An Avro file of a table."""

    def rows_of(self, stream: BinaryIO, wanted: Sequence[NestedField]) -> Iterator[PositionedRows]:
        file = AvroStream(stream, path=self.uri)
        columns = AvroColumns.of(file.schema, path=self.uri)
        schema = schema_with_ids(columns.schema, self.mapping, path=self.uri)
        projection = Projection.of(schema, wanted, constants=self.constants, path=self.uri)
        fields = [schema.field(number) for number in projection.sources]
        wanted_schema = columns.only(projection.sources)
        first = 0
        for blocks in _gathered(file.blocks()):
            records = decode_blocks(columns.stored, blocks, wanted_schema, path=self.uri)
            try:
                arrays = {
                    source: pa.array([record[field.name] for record in records], field.type)
                    for source, field in zip(projection.sources, fields, strict=True)
                }
            except OverflowError as error:
                raise pa.ArrowInvalid(str(error)) from error
            yield PositionedRows(projection.rows(arrays, len(records)), first)
            first += len(records)


def _gathered(blocks: Iterator[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Successive blocks, as many as make a batch."""
    held: list[tuple[int, bytes]] = []
    rows = size_bytes = 0
    for count, block in blocks:
        held.append((count, block))
        rows, size_bytes = rows + count, size_bytes + len(block)
        if rows >= _BATCH_ROWS or size_bytes >= _BATCH_BYTES:
            yield held
            held, rows, size_bytes = [], 0, 0
    if held:
        yield held
