"""Which columns a condition asks for, so that a count reads no others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tideline.errors import ConfigError
from tideline.spark.read.matching import columns_of_condition
from tideline.storage.location import StoreLocation

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("who", pa.string()),
        ("a.b", pa.string()),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.string())])),
        ("amount", pa.int64()),
        ("user", pa.string()),
    ]
)
ALL = SCHEMA.names


def asked(spark: SparkSession, where: str | Column) -> list[str]:
    return columns_of_condition(spark, StoreLocation.of("memory://none"), where, SCHEMA)


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("who = 'Zaphod'", ["who"]),
        ("WHO = 'zaphod' or amount > 3", ["who", "amount"]),
        ("place.city = 'x' and `a.b` is null", ["a.b", "place"]),
        ("id in (1, 2)", ["id"]),
        ("exists (select 1 from values (1) as t(k) where k = id)", ["id"]),
        ("user = 'zaphod'", ["user"]),
        ("1 = 1", ALL),
        ("id * 2 = 4", ALL),
    ],
)
def test_they_are_those_without_which_it_is_refused(
    spark: SparkSession, where: str, columns: list[str]
) -> None:
    assert asked(spark, where) == columns


def test_conditions_may_be_expressions(spark: SparkSession) -> None:
    assert asked(spark, F.col("who").startswith("z") & F.col("id").isNotNull()) == ["id", "who"]
    assert asked(spark, F.hash("*") == 1) == ALL


def test_what_spark_refuses_is_named(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="refuses the condition"):
        asked(spark, "nobody = 1")
