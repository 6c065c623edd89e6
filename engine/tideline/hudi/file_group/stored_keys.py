"""Record keys of base files: one, to learn how keys are spelled, or a few, to learn where a bucket
index puts them.

Footers hold two keys each and cost one request; where they leave a doubt, the first rows do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.arrow_stream import arrow_stream
from tideline.formats.parquet_footer import read_footer
from tideline.hudi.file_group.base_file_reader import open_bytes
from tideline.hudi.index.bucket import bucket_of_file_id
from tideline.hudi.index.bucket_count import StoredKey
from tideline.hudi.table.file_group import BaseFile, FileSlice
from tideline.hudi.table.meta_column import RECORD_KEY
from tideline.storage.local.regular_file import native_file
from tideline.storage.object_store import ObjectStore

FILES_MAX = 8
ROWS_MAX = 2_000


def sampled_files(slices: Sequence[FileSlice], files_max: int = FILES_MAX) -> tuple[BaseFile, ...]:
    """The base files to look into: of each partition those of the highest buckets."""
    found: dict[str, list[BaseFile]] = {}
    for file_slice in slices:
        if file_slice.base_file is not None:
            found.setdefault(file_slice.partition, []).append(file_slice.base_file)
    share = max(1, files_max // max(1, len(found)))
    chosen = (
        file
        for files in found.values()
        for file in sorted(files, key=lambda file: file.file_id, reverse=True)[:share]
    )
    return tuple(islice(chosen, files_max))


def keys_of_footers(store: ObjectStore, files: Sequence[BaseFile]) -> tuple[StoredKey, ...]:
    """The smallest and the greatest key of each file; none of files that do not say them.

    Raises CorruptTableError when a file is missing or cannot be read.
    """
    return tuple(_stored(file, key) for file in files for key in _extremes(store, file))


def keys_of_rows(store: ObjectStore, files: Sequence[BaseFile]) -> tuple[StoredKey, ...]:
    """The keys of the first rows of each file; none in a table without meta columns."""
    return tuple(_stored(file, key) for file in files for key in _first_keys(store, file, ROWS_MAX))


def some_stored_keys(store: ObjectStore, base: BaseFile) -> tuple[str, ...]:
    """The smallest and the greatest record key of a base file, else any one.

    None of a file without rows or without meta columns. Raises CorruptTableError when the file is
    missing or cannot be read.
    """
    return _extremes(store, base) or _first_keys(store, base, 1)


@contextmanager
def open_base_file(store: ObjectStore, base: BaseFile) -> Iterator[pq.ParquetFile]:
    """Open one base file to read its footer and columns.

    Raises CorruptTableError naming the file when it is missing or cannot be read.
    """
    try:
        native = native_file(store, base.path)
        source = native or arrow_stream(open_bytes(store, base))
        with pq.ParquetFile(source, pre_buffer=native is None) as file:
            yield file
    except (ObjectNotFoundError, FileNotFoundError) as error:
        raise _corrupt(store, base, "base file is missing", None) from error
    except (pa.ArrowInvalid, OSError) as error:
        # Arrow reports bytes it cannot decode as an OSError without a number.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _corrupt(store, base, "base file cannot be read as parquet", error) from error


def _stored(file: BaseFile, key: str) -> StoredKey:
    return StoredKey(file.partition, bucket_of_file_id(file.file_id), key, file.path)


def _extremes(store: ObjectStore, file: BaseFile) -> tuple[str, ...]:
    with open_base_file(store, file) as parquet:
        footer = read_footer(parquet.metadata, path=file.path)
    return tuple(key for key in (footer.min_key, footer.max_key) if key is not None)


def _first_keys(store: ObjectStore, file: BaseFile, rows_max: int) -> tuple[str, ...]:
    with open_base_file(store, file) as parquet:
        if RECORD_KEY not in parquet.schema_arrow.names:
            return ()
        first = next(parquet.iter_batches(batch_size=rows_max, columns=[RECORD_KEY]), None)
        keys = first.column(0).to_pylist() if first else []
    return tuple(key for key in keys if key is not None)


def _corrupt(
    store: ObjectStore, base: BaseFile, message: str, value: Exception | None
) -> CorruptTableError:
    return CorruptTableError(
        message, table=store.uri, instant=base.instant, path=base.path, value=value
    )
