"""The answer to a query over frames, small enough to print."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
    with refusals_named("query", sql):
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        answer = spark.sql(sql)
        rows = (answer if limit is None else answer.limit(limit + 1)).toArrow()
    return ShownRows.of(rows, limit)


@contextmanager
def refusals_named(what: str, said: object) -> Iterator[None]:
    """Raise ConfigError for what Spark refuses: a query, a condition."""
    silence_refusals()
    try:
        yield
    except (AnalysisException, ParseException) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigError(f"Spark refuses the {what}: {reason}", value=said) from error


def silence_refusals() -> None:
    """For queries that Spark may refuse, where the caller says so."""
    for name in _NOISY_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
