"""The rows of a Lance base file, through the library `lance`, which the extra `lance` installs.

It opens files by their names alone. One in a remote store is copied to this machine first, and gone
with this object.
Source: Hudi's HoodieBaseLanceWriter; pylance's LanceFileReader.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from tideline.distribution import installation
from tideline.errors import UnsupportedTableError
from tideline.formats.parquet_footer import BaseFileFooter
from tideline.formats.row_batches import check_schema, rows_of_batch


class LanceRows:
    """An open file. Raises OSError when it is no Lance file, UnsupportedTableError without the
    library, and for a file of more columns than are read."""

    def __init__(self, stream: BinaryIO, *, path: str, local_path: str | None) -> None:
        self._path = path
        self._open = _library(path).LanceFileReader
        self._name = local_path or self._copied(stream)
        metadata = self._open(self._name).metadata()
        self._row_count = int(metadata.num_rows)
        self._size_bytes = int(metadata.num_data_bytes)
        self._schema: pa.Schema = metadata.schema
        check_schema(self._schema, path=path)

    def _copied(self, stream: BinaryIO) -> str:
        """The name of a copy, which goes with this object."""
        self._copy = tempfile.NamedTemporaryFile(suffix=".lance")  # noqa: SIM115
        shutil.copyfileobj(stream, self._copy)
        self._copy.flush()
        return self._copy.name

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def row_count(self) -> int:
        return self._row_count

    def footer(self) -> BaseFileFooter:
        return BaseFileFooter.from_metadata(self._schema.metadata, path=self._path)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        # Of no column at all the library reads no rows.
        wanted = list(dict.fromkeys(names)) or self._schema.names[:1]
        rows = rows_of_batch(self._size_bytes, self._row_count)
        if not self._row_count:
            return
        read = self._open(self._name, columns=wanted).read_all(batch_size=rows, batch_readahead=1)
        yield from read.to_batches()


def _library(path: str) -> Any:
    try:
        from lance import file  # needed by few tables, and two hundred megabytes
    except ImportError as error:
        raise UnsupportedTableError(
            f"reading base files in Lance needs the extra [lance]: {installation('lance')}",
            path=path,
        ) from error
    return file
