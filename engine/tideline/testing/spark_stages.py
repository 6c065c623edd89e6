"""How much work a session of Spark has begun, for tests of how little it does."""

from __future__ import annotations

from pyspark.sql import SparkSession


def stages_begun(spark: SparkSession) -> int:
    """The number of stages so far."""
    assert spark._jsc is not None
    return int(spark._jsc.sc().dagScheduler().nextStageId())
