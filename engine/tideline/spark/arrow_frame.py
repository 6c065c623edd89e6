"""A Spark DataFrame of rows in Arrow."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation


def arrow_frame(rows: pa.Table, location: StoreLocation) -> DataFrame:
    """The rows in the running session, or a new one that reaches the location.

    A timestamp without a zone stays one.
    """
    return frame_of(spark_session("tideline write", locations=[location]), rows)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """The same in a session that is there."""
    fields = [
        T.StructField(item.name, from_arrow_type(item.type, prefer_timestamp_ntz=True))
        for item in rows.schema
    ]
    return spark.createDataFrame(rows, T.StructType(fields))
