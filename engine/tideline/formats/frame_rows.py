"""Rows as callers hold them: frames of pandas as Arrow, and what is said of what has no rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tideline.errors import ConfigError, InvalidDataError


def pandas_rows(frame: Any) -> pa.Table:
    """A DataFrame's columns, those of an index with names first; an index without is left out.

    Raises InvalidDataError naming a column whose values have no common type.
    """
    index = [name for name in frame.index.names if name is not None and name not in frame.columns]
    named = len(index) == frame.index.nlevels
    try:
        table = pa.Table.from_pandas(frame, preserve_index=named)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        # pyarrow says the value first and the column last.
        said = ": ".join(str(part) for part in reversed(error.args))
        message = f"{said or error}; give all values of a column one type"
        raise InvalidDataError(message[:1].lower() + message[1:]) from error
    if not named:
        return table
    names = [str(name) for name in index]
    rest = [name for name in table.column_names if name not in names]
    return table.select([*names, *rest])


def require_different_names(table: pa.Table) -> pa.Table:
    """The table. Raises InvalidDataError for rows that have a column twice."""
    names = table.column_names
    if len(set(names)) == len(names):
        return table
    twice = sorted({name for name in names if names.count(name) > 1})
    raise InvalidDataError("rows have a column twice", value=", ".join(twice))


def no_rows(given: Any, table: str | None = None) -> ConfigError:
    """The error about something that rows cannot be taken from."""
    kind = type(given)
    library = kind.__module__.partition(".")[0]
    lazy = ": collect() a LazyFrame first" if kind.__name__ == "LazyFrame" else ""
    rows = ", as a DataFrame" if library == "pandas" else ""
    forms = "pyarrow, pandas, Polars, DuckDB, an Arrow stream, a list of dicts or a Spark DataFrame"
    return ConfigError(
        f"rows are written from {forms}{lazy}{rows}", table=table, value=kind.__name__
    )
