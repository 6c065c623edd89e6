"""The rows of an ORC base file, stripe by stripe, in batches sized by bytes.

Times without a zone are moments to Hudi: it writes those of its UTC times so, and its local times
as plain numbers. Arrow gives what the clock of the writer showed; the moment follows from the
writer's zone (`orc_zone`). Of the hour that a clock showed twice it does not, and is refused.
Arrow counts them in nanoseconds, which end in 1677 and 2262.
Source: Hudi's HoodieAvroOrcWriter, AvroOrcUtils.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc, types

from tideline.errors import UnsupportedTableError
from tideline.formats.arrow_stream import arrow_stream
from tideline.formats.orc_zone import writer_zones
from tideline.formats.parquet_footer import BaseFileFooter
from tideline.formats.row_batches import check_schema, rows_of_batch

_UTC = ("", "UTC", "GMT", "Etc/UTC", "Z")


class OrcRows:
    """An open file. Raises what Arrow raises when it is no ORC file, UnsupportedTableError for one
    of more columns than are read."""

    def __init__(self, stream: BinaryIO, *, path: str) -> None:
        self._path = path
        self._stream = stream
        self._file = orc.ORCFile(arrow_stream(stream))
        check_schema(self.schema, path=path)

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema

    @property
    def row_count(self) -> int:
        return int(self._file.nrows)

    def footer(self) -> BaseFileFooter:
        return BaseFileFooter.from_metadata(self._file.metadata, path=self._path)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Raises UnsupportedTableError for times whose moment is not known."""
        # Of no column at all Arrow does not say how many rows there are.
        wanted = list(dict.fromkeys(names)) or self.schema.names[:1]
        timed = [name for name in wanted if _has_times(self.schema.field(name).type)]
        zones = writer_zones(self._stream, path=self._path) if timed else ()
        for index in range(self._file.nstripes):
            stripe = self._file.read_stripe(index, columns=wanted)
            zone = zones[index] if zones else ""
            if zone not in _UTC:
                stripe = self._moments(stripe, zone)
            rows = rows_of_batch(stripe.nbytes, stripe.num_rows)
            for start in range(0, stripe.num_rows, rows):
                yield stripe.slice(start, rows)

    def _moments(self, rows: pa.RecordBatch, zone: str) -> pa.RecordBatch:
        arrays = []
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            try:
                arrays.append(_in_utc(column, zone))
            except pa.ArrowInvalid as error:
                raise UnsupportedTableError(
                    f"column {name} has times that ORC tells by a clock in {zone}, which do not "
                    "say which moment is meant; rewrite the table with Hudi, as Parquet",
                    path=self._path,
                    value=error,
                ) from error
        return pa.RecordBatch.from_arrays(arrays, rows.schema.names)


def _has_times(data_type: pa.DataType) -> bool:
    if types.is_nested(data_type):
        children = (data_type.field(index).type for index in range(data_type.num_fields))
        return any(_has_times(child) for child in children)
    return bool(types.is_timestamp(data_type) and data_type.tz is None)


def _in_utc(array: pa.Array, zone: str) -> pa.Array:
    """Times by the clock of a zone as the moments that they are."""
    if not _has_times(array.type):
        return array
    if types.is_timestamp(array.type):
        return pc.assume_timezone(array, zone, ambiguous="raise", nonexistent="raise")
    if types.is_struct(array.type):
        children = [_in_utc(array.field(index), zone) for index in range(array.type.num_fields)]
        names = [item.name for item in array.type]
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    raise pa.ArrowInvalid("times in lists and maps are not converted")
