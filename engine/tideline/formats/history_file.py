"""The Parquet files of an LSM history (Hudi: HoodieLSMTimelineInstant), one row per instant."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.errors import CorruptTableError
from tideline.formats.bounded import faults_named

TIMES = ("instantTime", "completionTime", "action")
COMMITS = (*TIMES, "metadata")


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
