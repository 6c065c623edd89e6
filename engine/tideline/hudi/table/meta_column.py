"""The columns Hudi puts before the user's in every base file."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"

META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""All nullable strings, in this order."""

# A sixth one, in tables that record the kind of every change.
_OPERATION = "_hoodie_operation"


def is_meta_column(name: str) -> bool:
    """Whether Hudi owns the column (`_hoodie_is_deleted` is the user's)."""
    return name in META_COLUMNS or name == _OPERATION


def shown_names(names: Iterable[str], *, meta: bool) -> list[str]:
    """The names, those of Hudi's own columns if `meta`."""
    return [name for name in names if meta or not is_meta_column(name)]


def with_meta_fields(schema: pa.Schema) -> pa.Schema:
    """The schema of a base file: the five meta columns, then the user's."""
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    return pa.schema([*meta, *without_meta_fields(schema)])


def without_meta_fields(schema: pa.Schema) -> pa.Schema:
    """The user's columns only."""
    return pa.schema([column for column in schema if not is_meta_column(column.name)])
