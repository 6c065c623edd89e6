"""One Spark session after the other on one Java: nothing of an operation is in the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tideline.spark.session.kept_session import KeptSession
from tideline.spark.session.spark_session import running_session

pytestmark = pytest.mark.spark

PARTITIONS = "spark.sql.shuffle.partitions"
BUCKET = "fs.s3a.bucket.lake.endpoint"


@pytest.fixture
def kept(spark: SparkSession) -> Iterator[KeptSession]:
    assert spark is not None
    kept = KeptSession("kept", {})
    yield kept
    kept.reset()
    assert running_session() is not None


def hadoop_of(session: SparkSession) -> Any:
    context: Any = session.sparkContext
    return context._jsc.hadoopConfiguration()


def test_nothing_of_an_operation_is_in_the_next(kept: KeptSession, spark: SparkSession) -> None:
    before = spark.conf.get(PARTITIONS)
    session = kept.open(())
    assert running_session() is not None
    session.range(3).createOrReplaceTempView("rows")
    session.range(3).createOrReplaceGlobalTempView("shared_rows")
    session.udf.register("tripled", lambda number: number * 3, "long")
    session.conf.set(PARTITIONS, "7")
    session.range(5).cache().count()
    hadoop_of(session).set(BUCKET, "http://elsewhere")
    kept.reset()
    again = kept.open(())
    assert again.conf.get(PARTITIONS) == before
    assert hadoop_of(again).get(BUCKET) is None
    context: Any = again.sparkContext
    assert len(context._jsc.getPersistentRDDs()) == 0
    for query in ("select * from rows", "select * from global_temp.shared_rows",
                  "select tripled(1)"):  # fmt: skip
        with pytest.raises(AnalysisException):
            again.sql(query)


def test_within_an_operation_it_is_one_session(kept: KeptSession) -> None:
    session = kept.open(())
    session.range(3).createOrReplaceTempView("rows")
    assert kept.open(()).sql("select count(*) from rows").collect()[0][0] == 3
    running = running_session()
    assert running is not None
    assert running.sql("select count(*) from rows").collect()[0][0] == 3


def test_without_an_operation_there_is_nothing_to_cancel(kept: KeptSession) -> None:
    assert not kept.cancel()
    kept.open(())
    assert kept.cancel()
    kept.reset()
    assert not kept.cancel()
