"""Parquet files of others as streams of rows, one file open at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import InvalidDataError, ObjectNotFoundError
from tideline.formats.arrow_stream import arrow_stream
from tideline.storage.object_store import ObjectStore

_BATCH_ROWS = 65_536


def file_streams(
    store: ObjectStore, folder: str, paths: Sequence[str]
) -> Iterator[pa.RecordBatchReader]:
    """The rows of each file; `folder` is the store's place. The reader of one is read before the
    next is taken. Raises InvalidDataError naming a file that is no Parquet or has gone, also while
    it is read; StorageUnavailableError."""
    for path in paths:
        with _named(f"{folder}/{path}"), store.open_reader(path) as stream:
            file = pq.ParquetFile(arrow_stream(stream), coerce_int96_timestamp_unit="us")
            with file:
                batches = file.iter_batches(_BATCH_ROWS)
                yield pa.RecordBatchReader.from_batches(file.schema_arrow, batches)


@contextmanager
def _named(path: str) -> Iterator[None]:
    try:
        yield
    except InvalidDataError as error:
        error.path = error.path or path
        raise
    except ObjectNotFoundError as error:
        raise InvalidDataError("the source file has gone", path=path) from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = " ".join(str(error).split())
        raise InvalidDataError(f"the source file cannot be read: {reason}", path=path) from error
