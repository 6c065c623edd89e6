"""Base files as rows, whatever their format: the one place that knows which formats are read.

`open_rows` finds the format by the file's extension. What is behind it reads columns by name, in
file order and in batches, in the types that the file has.
Source: Hudi's HoodieFileFormat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.lance_rows import LanceRows
from tideline.formats.orc_rows import OrcRows
from tideline.formats.parquet_footer import BaseFileFooter, is_broken_footer
from tideline.formats.parquet_rows import ParquetRows
from tideline.formats.row_filter import RowFilter


class StoredRows(Protocol):
    """The rows of an open file."""

    @property
    def schema(self) -> pa.Schema:
        """Every column, in the type that it comes in."""

    @property
    def row_count(self) -> int: ...

    def footer(self) -> BaseFileFooter:
        """What Hudi keeps in the file besides rows."""

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows in file order, with at least these columns, sized by bytes."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file to read: its bytes, and where they are on this machine if they are.

    Rows that `row_filter` does not select may be left out of its batches.
    """

    stream: BinaryIO
    path: str
    local_path: str | None = None
    keeps_dictionaries: bool = False
    row_filter: RowFilter | None = None


def open_rows(extension: str, file: OpenFile) -> StoredRows:
    """The rows of a file with this extension.

    Raises UnsupportedTableError for a format that is not read, and what Arrow raises for a file
    that is not of the format (`is_broken_footer`).
    """
    opens = _FORMATS.get(extension)
    if opens is None:
        raise UnsupportedTableError("base files of this format are not read", path=file.path)
    return opens(file)


def open_sound_rows(
    extension: str,
    file: OpenFile,
    *,
    role: str,
    table: object = None,
    instant: object = None,
) -> StoredRows:
    """The same. Raises CorruptTableError for a file that is not of the format, naming its `role`,
    table and instant."""
    try:
        return open_rows(extension, file)
    except (ValueError, OSError) as error:
        if not is_broken_footer(error):
            raise
        raise CorruptTableError(
            f"{role} is no {extension} file",
            table=table,
            instant=instant,
            path=file.path,
            value=error,
        ) from error


def is_read(extension: str) -> bool:
    """Whether files with this extension are read."""
    return extension in _FORMATS


def _parquet(file: OpenFile) -> StoredRows:
    return ParquetRows(
        file.stream,
        path=file.path,
        # Few large requests instead of one for every column.
        pre_buffer=file.local_path is None,
        keeps_dictionaries=file.keeps_dictionaries,
        row_filter=file.row_filter,
    )


def _orc(file: OpenFile) -> StoredRows:
    return OrcRows(file.stream, path=file.path)


def _lance(file: OpenFile) -> StoredRows:
    return LanceRows(file.stream, path=file.path, local_path=file.local_path)


_FORMATS: Mapping[str, Callable[[OpenFile], StoredRows]] = {
    "parquet": _parquet,
    "orc": _orc,
    "lance": _lance,
}
