"""A data file that is read from its beginning to its end, in a format that has neither parts
to read nor statistics to look at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

from tideline.formats.row_filter import RowFilter
from tideline.iceberg.data.name_mapping import MappedField
from tideline.iceberg.data.parquet_rows import FilePart, PositionedRows, faults_of_file
from tideline.iceberg.metadata.field_type import NestedField
from tideline.iceberg.table.file_io import FileIO


@dataclass(frozen=True, slots=True)
class WholeFile(ABC):
    """A file of a table; `constants` are its identity partition values by field id."""

    io: FileIO
    uri: str
    mapping: Sequence[MappedField] | None
    constants: Mapping[int, Any]

    def batches(
        self,
        wanted: Sequence[NestedField],
        part: FilePart | None = None,
        row_filter: RowFilter | None = None,  # noqa: ARG002
    ) -> Iterator[PositionedRows]:
        """All rows of the file. Raises as `ParquetSource.batches`."""
        assert part is None, "only parts of Parquet files are read"
        with faults_of_file(self.uri), closing(self.io.open_reader(self.uri)) as stream:
            yield from self.rows_of(stream, wanted)

    @abstractmethod
    def rows_of(self, stream: BinaryIO, wanted: Sequence[NestedField]) -> Iterator[PositionedRows]:
        """The wanted fields of all rows of an open file."""
