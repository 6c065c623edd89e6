"""Rows as callers give them, as a stream of Arrow batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tideline.errors import ConfigError

_BATCH_ROWS = 65_536


def row_stream(rows: Any) -> pa.RecordBatchReader:
    """A reader of pyarrow's own forms, a Dataset, pandas and all that give Arrow streams, such as
    Polars and DuckDB; a stream is not held in memory. Raises ConfigError for anything else."""
    library = type(rows).__module__.partition(".")[0]
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if library == "pandas":
        rows = pa.Table.from_pandas(rows, preserve_index=False)
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return rows.to_reader(max_chunksize=_BATCH_ROWS)
    if isinstance(rows, ds.Dataset):
        return rows.scanner().to_reader()
    if library != "pyspark" and hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    raise ConfigError(
        "rows of an Iceberg table are written from pyarrow, pandas, an Arrow stream or a list of "
        "dicts; those of a Spark DataFrame as `frame.toArrow()`, or by Iceberg's Spark runtime",
        value=type(rows).__name__,
    )
