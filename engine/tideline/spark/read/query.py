"""Rows for people: the answer to a query over one table, small enough to print."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame

from tideline.errors import ConfigError
from tideline.hudi.table.meta_column import META_COLUMNS

VIEW_NAME = "t"

# pyspark logs a refused query as JSON on stderr in addition to raising it.
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """Columns and rows; `complete` is False when a limit cut the rows off."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    complete: bool


def query_rows(
    frame: DataFrame, *, sql: str | None, limit: int | None, with_meta_columns: bool = False
) -> QueryAnswer:
    """The frame's rows, or those of `sql`, which knows the frame as the view `t`.

    At most `limit` rows, all of them for None. Raises ConfigError for a query Spark refuses.
    """
    for name in _NOISY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    if not with_meta_columns:
        frame = frame.drop(*META_COLUMNS)
    try:
        if sql is not None:
            frame.createOrReplaceTempView(VIEW_NAME)
            frame = frame.sparkSession.sql(sql)
        answer = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    except (AnalysisException, ParseException) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigError(f"Spark refuses the query: {reason}", value=sql) from error
    complete = limit is None or answer.num_rows <= limit
    shown = answer if complete else answer.slice(0, limit)
    columns = [column.to_pylist() for column in shown.columns]
    return QueryAnswer(tuple(shown.column_names), tuple(zip(*columns, strict=True)), complete)
