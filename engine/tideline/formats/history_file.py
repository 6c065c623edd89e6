"""The Parquet files of an LSM history (Hudi: HoodieLSMTimelineInstant), one row per instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.bounded.parsing import faults_named
from tideline.errors import CorruptTableError

_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_CODEC = "gzip"
_VERSION = 1

TIMES = ("instantTime", "completionTime", "action")
COMMITS = (*TIMES, "metadata")
WHOLE = (*COMMITS, "plan")


def read_history_file(body: bytes, columns: Sequence[str], *, path: object) -> list[dict[str, Any]]:
    """The rows, with these columns of `TIMES` or `COMMITS`.

    Raises CorruptTableError naming `path` for what is no such file.
    """
    faults = (pa.ArrowException, OSError)
    with faults_named("file of the archived timeline cannot be read", path=path, also=faults):
        rows = pq.read_table(BytesIO(body), columns=list(columns))
        missing = [name for name in columns if name not in rows.column_names]
        if missing:
            raise CorruptTableError(
                "file of the archived timeline lacks columns", value=", ".join(missing)
            )
        found: list[dict[str, Any]] = rows.to_pylist()
    return found


def encode_history_file(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A file of these rows, which have the columns of `COMMITS` and `plan` (bytes or None)."""
    versioned = [{**row, "version": _VERSION} for row in rows]
    return _encoded([pa.Table.from_pylist(versioned, schema=_SCHEMA)])


def merge_history_files(bodies: Iterable[bytes], *, path: object) -> bytes:
    """One file with the rows of all, unchanged and in their order; one is in memory at a time.

    Raises CorruptTableError naming `path` for a body that is no such file.
    """
    return _encoded(_read_whole(body, path) for body in bodies)


def _read_whole(body: bytes, path: object) -> pa.Table:
    faults = (pa.ArrowException, OSError, KeyError)
    with faults_named("file of the archived timeline cannot be read", path=path, also=faults):
        return pq.read_table(BytesIO(body), columns=_SCHEMA.names).cast(_SCHEMA)


def _encoded(tables: Iterable[pa.Table]) -> bytes:
    sink = BytesIO()
    # Hudi's reader knows nothing of Arrow's own schema.
    with pq.ParquetWriter(sink, _SCHEMA, compression=_CODEC, store_schema=False) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()
