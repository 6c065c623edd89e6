"""The answer to a query over frames, small enough to print."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from tideline.errors import ConfigError
from tideline.hudi.read.shown_rows import ShownRows

# pyspark logs a refused query as JSON on stderr in addition to raising it.
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def query_rows(
    spark: SparkSession, frames: Mapping[str, DataFrame], sql: str, limit: int | None
) -> ShownRows:
    """The answer to `sql`, in which the frames have these names.

    At most `limit` rows, all of them for None. Raises ConfigError for a query Spark refuses.
    """
    silence_refusals()
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        answer = spark.sql(sql)
        rows = (answer if limit is None else answer.limit(limit + 1)).toArrow()
    except (AnalysisException, ParseException) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigError(f"Spark refuses the query: {reason}", value=sql) from error
    return ShownRows.of(rows, limit)


def silence_refusals() -> None:
    """For queries that Spark may refuse, where the caller says so."""
    for name in _NOISY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
