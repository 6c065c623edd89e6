"""One key, one text: both engines spell the values of every type alike, over their whole range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from tideline.hudi.keys.key_generator import KeyGenerator, PartitionField
from tideline.hudi.keys.key_text import has_two_texts
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.spark.write.keys import partition_path_column, record_key_column
from tideline.testing.key_values import key_values

pytestmark = pytest.mark.spark

SIMPLE = KeyGenerator(("v",), (PartitionField("v"),), qualified=False, url_encode=True)
NAMED = KeyGenerator(("n", "v"), (PartitionField("v"),), qualified=True, hive_style=True)
AS_TEXT = KeyGenerator(("v",), (PartitionField("v"),), qualified=False, timestamps_as_text=True)
NAMED_AS_TEXT = replace(NAMED, timestamps_as_text=True)
OF_SQL = KeyGenerator(("v",), (PartitionField("v"),), qualified=False, paths_are_of_sql=True)


ZONES = ("UTC", "America/New_York", "Pacific/Apia")
"""Time zones of sessions; clocks of the latter two have gaps."""
OF_TIME = ("date", "timestamp", "timestamp_ntz")
CASES = [(ZONES[0], name) for name in key_values()] + list(product(ZONES[1:], OF_TIME))


@pytest.fixture
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def spelled(spark: SparkSession, column: pa.Array, *many: KeyGenerator) -> list[list[str | None]]:
    """The keys and the paths of a column's values, which both engines make alike."""
    rows = pa.record_batch({"v": column, "n": pa.array(range(len(column)), pa.int32())})
    kinds = [from_arrow_type(item.type, prefer_timestamp_ntz=True) for item in rows.schema]
    fields = [StructField(item.name, kind) for item, kind in zip(rows.schema, kinds, strict=True)]
    frame = spark.createDataFrame(pa.Table.from_batches([rows]), StructType(fields))
    makers = list(product((record_key_column, partition_path_column), many))
    columns = [
        make(keys, frame.schema).alias(str(number)) for number, (make, keys) in enumerate(makers)
    ]
    theirs = frame.select(*columns).toArrow()
    ours = [
        *[record_keys(rows, keys) for keys in many],
        *[partition_paths(rows, keys).dictionary_decode() for keys in many],
    ]
    for number, texts in enumerate(ours):
        found = zip(column, texts.to_pylist(), theirs.column(number).to_pylist(), strict=True)
        assert [row for row in found if row[1] != row[2]] == [], makers[number]
    return [texts.to_pylist() for texts in ours]


@pytest.mark.parametrize(("zone", "name"), CASES, indirect=["zone"])
def test_values_of_every_type_have_one_text(spark: SparkSession, zone: str, name: str) -> None:
    column = key_values()[name]
    generators = [SIMPLE, NAMED]
    if zone == "UTC" or name != "timestamp":
        generators += [AS_TEXT, OF_SQL]
    keys, *_ = spelled(spark, column, *generators)
    expected = [key_of(value, two) for value, two in zip(column, two_texts(column), strict=True)]
    assert [key is None for key in keys] == [not is_key for is_key in expected]
    assert len(set(keys) - {None}) == sum(expected)


def key_of(value: pa.Scalar, has_two: bool) -> bool:
    is_empty = not value.is_valid or value == pa.scalar("") or value == pa.scalar(b"")
    return not is_empty and not has_two


def two_texts(column: pa.Array, *, as_text: bool = False) -> list[bool]:
    return list(map(bool, has_two_texts(column, timestamps_as_text=as_text)))


@pytest.mark.parametrize(
    ("name", "as_text"), [("float", False), ("double", False), ("timestamp", True)]
)
def test_values_with_two_texts_make_no_key(spark: SparkSession, name: str, as_text: bool) -> None:
    column = key_values()[name]
    has_two = two_texts(column, as_text=as_text)
    assert 20 < sum(has_two) < len(column) / 2
    keys, _, _, paths = spelled(
        spark, column, *([AS_TEXT, NAMED_AS_TEXT] if as_text else [SIMPLE, NAMED])
    )
    for two, value, key, path in zip(has_two, column, keys, paths, strict=True):
        assert (key is None) == (two or not value.is_valid)
        assert (path is None) == two
