"""ORC files of a table, stripe by stripe: the wanted fields and where each row lies.

1. Iceberg's writers keep field ids as attributes of ORC's types, which Arrow gives as metadata.
2. Names of columns are resolved by ORC at any depth, so that a column whose name has a dot is read
   only where no other one is meant.
3. Arrow counts ORC's times in nanoseconds, which end in 1677 and 2262: others are refused.

A stripe is in memory at once. Source: Iceberg's specification, Appendix A, "ORC".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
from pyarrow import orc, types

from tideline.errors import UnsupportedTableError
from tideline.formats.arrow_stream import arrow_stream
from tideline.formats.row_batches import rows_of_batch
from tideline.iceberg.data.arrow_schema import FIELD_ID
from tideline.iceberg.data.name_mapping import schema_with_ids
from tideline.iceberg.data.parquet_rows import PositionedRows
from tideline.iceberg.data.projection import Projection
from tideline.iceberg.data.whole_file import WholeFile
from tideline.iceberg.metadata.field_type import NestedField

_ID = b"iceberg.id"


@dataclass(frozen=True, slots=True)
class OrcSource(WholeFile):
    """An ORC file of a table."""

    def rows_of(self, stream: BinaryIO, wanted: Sequence[NestedField]) -> Iterator[PositionedRows]:
        file = orc.ORCFile(arrow_stream(stream))
        schema = pa.schema([_with_id(field) for field in file.schema])
        schema = schema_with_ids(schema, self.mapping, path=self.uri)
        projection = Projection.of(schema, wanted, constants=self.constants, path=self.uri)
        names = [schema.field(number).name for number in projection.sources]
        first = 0
        for number in range(file.nstripes):
            stripe = self._stripe(file, number, names)
            size = rows_of_batch(stripe.nbytes, stripe.num_rows)
            for at in range(0, stripe.num_rows, size):
                part = stripe.slice(at, size)
                columns = {
                    source: part.column(name)
                    for source, name in zip(projection.sources, names, strict=True)
                }
                yield PositionedRows(projection.rows(columns, part.num_rows), first + at)
            first += stripe.num_rows

    def _stripe(self, file: orc.ORCFile, number: int, names: Sequence[str]) -> pa.RecordBatch:
        # Of no column at all Arrow does not say how many rows there are.
        asked = list(names) or file.schema.names[:1]
        try:
            stripe = file.read_stripe(number, columns=asked)
        except pa.ArrowInvalid as error:
            if "nanosecond resolution" in str(error):
                message = "an ORC file has times before 1677 or after 2262, which are not read"
                raise UnsupportedTableError(message, path=self.uri, value=error) from error
            raise
        if missing := set(names) - set(stripe.schema.names):
            message = "columns of an ORC file are not read because of their names"
            raise UnsupportedTableError(message, path=self.uri, value=", ".join(sorted(missing)))
        return stripe


def _with_id(field: pa.Field) -> pa.Field:
    """A column with its id where Parquet has it, and so for those within."""
    kind = field.type
    if types.is_struct(kind):
        kind = pa.struct([_with_id(child) for child in kind])
    elif types.is_list(kind):
        kind = pa.list_(_with_id(kind.value_field))
    elif types.is_map(kind):
        kind = pa.map_(_with_id(kind.key_field), _with_id(kind.item_field))
    number = (field.metadata or {}).get(_ID)
    metadata = {} if number is None else {FIELD_ID: number}
    return pa.field(field.name, kind, field.nullable, metadata)
