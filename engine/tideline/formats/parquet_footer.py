"""What Hudi keeps in the footer of a base file: the bloom filter and the range of its record keys.

Source: Hudi's HoodieBloomFilterWriteSupport, HoodieAvroWriteSupport.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.bounded.read_limits import too_many_columns
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.bloom import BloomFilter, BloomFilterType
from tideline.formats.stored_filter import BLOOM_FILTER_KEY, BLOOM_FILTER_TYPE_KEY

# Written by Hudi before it was an Apache project.
OLD_BLOOM_FILTER_KEY = "com.uber.hoodie.bloomfilter"
MIN_RECORD_KEY = "hoodie_min_record_key"
MAX_RECORD_KEY = "hoodie_max_record_key"


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """The Hudi entries of a base file's footer.

    All are None in a table without meta fields; the keys also in a file without rows.
    """

    bloom: BloomFilter | None = None
    min_key: str | None = None
    max_key: str | None = None

    def to_metadata(self) -> dict[str, str]:
        """The footer's key-value pairs."""
        metadata: dict[str, str] = {}
        if self.bloom is not None:
            metadata[BLOOM_FILTER_KEY] = self.bloom.to_base64()
            metadata[BLOOM_FILTER_TYPE_KEY] = self.bloom.kind.value
        if self.min_key is not None:
            metadata[MIN_RECORD_KEY] = self.min_key
        if self.max_key is not None:
            metadata[MAX_RECORD_KEY] = self.max_key
        return metadata

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[bytes, bytes] | None, *, path: object = None
    ) -> BaseFileFooter:
        """Read a footer's key-value pairs; pairs of others are ignored.

        Raises CorruptTableError or UnsupportedTableError naming `path` when the bloom filter is
        unreadable.
        """
        texts = _texts(metadata or {}, path)
        return cls(
            bloom=_bloom(texts, path),
            min_key=texts.get(MIN_RECORD_KEY),
            max_key=texts.get(MAX_RECORD_KEY),
        )


def read_footer(source: str | BinaryIO | pq.FileMetaData, *, path: object = None) -> BaseFileFooter:
    """The Hudi entries of a parquet file: a path, an open file, or metadata read already.

    Raises CorruptTableError naming `path` when the file is missing or no parquet.
    """
    if isinstance(source, pq.FileMetaData):
        return BaseFileFooter.from_metadata(source.metadata, path=path)
    named = source if path is None and isinstance(source, str) else path
    try:
        metadata = pq.read_metadata(source).metadata
    except FileNotFoundError as error:
        raise CorruptTableError("base file is missing", path=named) from error
    except (ValueError, OSError) as error:
        if not is_broken_footer(error):
            raise
        raise CorruptTableError(
            "base file is not a parquet file", path=named, value=error
        ) from error
    return BaseFileFooter.from_metadata(metadata, path=named)


def check_columns(metadata: pq.FileMetaData, *, path: object = None) -> None:
    """Raise UnsupportedTableError naming `path` for a file of more columns than are read."""
    problem = too_many_columns(metadata.num_columns)
    if problem is not None:
        raise UnsupportedTableError(problem, path=path)


def read_schema(source: str | BinaryIO, *, path: object = None) -> pa.Schema:
    """The Arrow schema of a file; times stored as INT96 count microseconds, as they are read.

    Raises what Arrow raises, and UnsupportedTableError for a file of more columns than are read.
    """
    with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
        check_columns(file.metadata, path=path)
        return file.schema_arrow


def is_broken_footer(error: ValueError | OSError) -> bool:
    """Whether Arrow means the footer: an ArrowInvalid, a UnicodeDecodeError or an OSError without
    a number. One with a number is the store's.
    """
    return not isinstance(error, OSError) or error.errno is None


def _texts(metadata: Mapping[bytes, bytes], path: object) -> dict[str, str]:
    """Our entries only: others' values may be large, or no text."""
    ours = (
        BLOOM_FILTER_KEY,
        OLD_BLOOM_FILTER_KEY,
        BLOOM_FILTER_TYPE_KEY,
        MIN_RECORD_KEY,
        MAX_RECORD_KEY,
    )
    try:
        return {key: metadata[key.encode()].decode() for key in ours if key.encode() in metadata}
    except UnicodeDecodeError as error:
        raise CorruptTableError("footer entry is not UTF-8", path=path, value=error) from error


def _bloom(texts: Mapping[str, Any], path: object) -> BloomFilter | None:
    serialised = texts.get(BLOOM_FILTER_KEY) or texts.get(OLD_BLOOM_FILTER_KEY)
    if serialised is None:
        return None
    code = texts.get(BLOOM_FILTER_TYPE_KEY)
    try:
        kind = None if code is None else BloomFilterType(code)
    except ValueError as error:
        raise UnsupportedTableError("unknown bloom filter type", path=path, value=code) from error
    try:
        return BloomFilter.from_base64(serialised, kind)
    except CorruptTableError as error:
        raise CorruptTableError(error.message, path=path, value=error.value) from error
    except UnsupportedTableError as error:
        raise UnsupportedTableError(error.message, path=path, value=error.value) from error
