"""Record keys and partition paths, in Spark and in Arrow, against what Hudi 1.2 makes of the same
values."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import KeyGenerator, PartitionField, TimestampFormat
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.spark.write.keys import partition_path_column, record_key_column

pytestmark = pytest.mark.spark

UTC = dt.UTC
NOON = dt.datetime(2024, 1, 5, 18, 0, 0, 123000)
TYPED = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int32()),
        ("long", pa.int64()),
        ("flag", pa.bool_()),
        ("ratio", pa.float32()),
        ("score", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("tiny", pa.decimal128(12, 10)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("deep", pa.struct([("inner", pa.struct([("Key", pa.string())]))])),
    ]
)
TYPED_ROW: dict[str, Any] = {
    "text": "a,b:c/d é😀",
    "number": -7,
    "long": 2**40,
    "flag": True,
    "ratio": 1.5,
    "score": 1e10,
    "price": Decimal("-0.50"),
    "tiny": Decimal("0E-10"),
    "day": dt.date(2024, 1, 5),
    "at": NOON.replace(tzinfo=UTC),
    "local": NOON,
    "raw": b"\x00\xffA",
    "deep": {"inner": {"Key": "nested"}},
}
# BigDecimal, Double, LocalDate and the like print so in Java.
AS_TEXT = {
    "text": "a,b:c/d é😀",
    "number": "-7",
    "long": "1099511627776",
    "flag": "true",
    "ratio": "1.5",
    "score": "1.0E10",
    "price": "-0.50",
    "tiny": "0E-10",
    "day": "2024-01-05",
    "at": "1704477600123000",
    "local": "1704477600123000",
    "raw": "00ff41",
    "deep.inner.key": "nested",
}


def simple(field: str = "id", *partitions: str | PartitionField, **settings: bool) -> KeyGenerator:
    parts = tuple(
        part if isinstance(part, PartitionField) else PartitionField(part) for part in partitions
    )
    return KeyGenerator((field,), parts, qualified=False, **settings)


def keys_of(spark: SparkSession, rows: pa.Table, keys: KeyGenerator) -> list[str | None]:
    frame = frame_of(spark, rows)
    found = [row[0] for row in frame.select(record_key_column(keys, frame.schema)).collect()]
    assert record_keys(_batch(rows), keys).to_pylist() == found
    return found


def paths_of(spark: SparkSession, rows: pa.Table, *many: KeyGenerator) -> list[list[str | None]]:
    """The partition paths of all rows by each generator, in one query."""
    frame = frame_of(spark, rows)
    columns = [
        partition_path_column(keys, frame.schema).alias(str(number))
        for number, keys in enumerate(many)
    ]
    rows_found = frame.select(*columns).collect()
    found = [[row[number] for row in rows_found] for number in range(len(many))]
    for keys, paths in zip(many, found, strict=True):
        assert partition_paths(_batch(rows), keys).to_pylist() == paths
    return found


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """With timestamps without a zone as they are."""
    types = [from_arrow_type(item.type, prefer_timestamp_ntz=True) for item in rows.schema]
    fields = [StructField(item.name, kind) for item, kind in zip(rows.schema, types, strict=True)]
    return spark.createDataFrame(rows, StructType(fields))


def _batch(rows: pa.Table) -> pa.RecordBatch:
    return rows.combine_chunks().to_batches()[0]


def test_values_of_every_type_read_as_java_prints_them(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.Table.from_pylist([TYPED_ROW, {}], schema=TYPED))
    columns = [record_key_column(simple(name), frame.schema).alias(name) for name in AS_TEXT]
    row, nulls = frame.select(*columns).collect()
    assert row.asDict() == AS_TEXT
    batch = _batch(pa.Table.from_pylist([TYPED_ROW, {}], schema=TYPED))
    for name, text in AS_TEXT.items():
        assert record_keys(batch, simple(name)).to_pylist() == [text, None]
    assert set(nulls) == {None}


def test_timestamps_read_as_text_where_the_table_says_so(spark: SparkSession) -> None:
    whole = NOON.replace(microsecond=0, tzinfo=UTC)
    rows = pa.table({"at": pa.array([NOON.replace(tzinfo=UTC), whole], pa.timestamp("us", "UTC"))})
    texts = ["2024-01-05 18:00:00.123", "2024-01-05 18:00:00.0"]
    assert keys_of(spark, rows, simple("at", timestamps_as_text=True)) == texts


@pytest.mark.parametrize("zone", ["UTC", None])
def test_timestamps_of_all_ages_read_as_text(spark: SparkSession, zone: str | None) -> None:
    edges = [-62_135_596_800_000_001, -62_135_596_800_000_000, 253_402_300_799_999_999]
    edges += [253_402_300_800_000_000, -62_167_219_200_000_000, -62_167_219_200_000_001]
    edges += [-1, 0, 1, -1_000_000, 10, 999_999, 2**62, -(2**61), -12_219_292_800_000_000]
    shuffled = random.Random(5)
    some = [shuffled.randrange(-(10**17), 3 * 10**17) for _ in range(300)]
    whole = [number // 1_000_000 * 1_000_000 for number in some]
    micros = pa.array([*edges, *some, *whole, None], pa.int64())
    rows = pa.table({"at": micros.cast(pa.timestamp("us", zone))})
    keys = simple("at", "at", timestamps_as_text=True)
    found = keys_of(spark, rows, keys)
    assert len(set(found)) > 300
    # Without a zone they are no moments, and numbers to Hudi too.
    assert {":" in key for key in found if key is not None} == {zone is not None}
    paths = paths_of(spark, rows, keys)
    assert paths[0][-1] == "__HIVE_DEFAULT_PARTITION__"


def test_local_timestamps_do_not_depend_on_the_session_zone(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql(f"SELECT TIMESTAMP_NTZ'{NOON}' AS local")
        found = frame.select(record_key_column(simple("local"), frame.schema)).first()
        assert found is not None and found[0] == AS_TEXT["local"]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_simple_keys_are_the_value_and_complex_ones_name_their_fields(spark: SparkSession) -> None:
    rows = pa.table(
        {
            "a": ["1", "", None, "x:y,z", "", None],
            "b": pa.array([1, 2, 3, None, None, None], pa.int32()),
        }
    )
    two = KeyGenerator(("a", "b"), (), qualified=True)
    assert keys_of(spark, rows, two) == [
        "a:1,b:1",
        "a:__empty__,b:2",
        "a:__null__,b:3",
        "a:x:y,z,b:__null__",
        None,
        None,
    ]
    assert keys_of(spark, rows, simple("A")) == ["1", None, None, "x:y,z", None, None]
    one_named = KeyGenerator(("a",), (), qualified=True)
    assert keys_of(spark, rows, one_named) == ["a:1", None, None, "a:x:y,z", None, None]


def test_partition_paths_have_one_level_per_field(spark: SparkSession) -> None:
    rows = pa.table(
        {
            "region": ["eu/west", "a b", "", None, 'ü?=:%"^[]{}\\', "\x01*#'\x7f"],
            "n": pa.array([1, None, 3, None, 5, 6], pa.int64()),
        }
    )
    default = "__HIVE_DEFAULT_PARTITION__"
    escaped = ["eu%2Fwest", "a b", default, default, "ü%3F%3D%3A%25%22%5E%5B%5D%7B}%5C"]
    escaped.append("%01%2A%23%27%7F")
    plain, encoded, hive, two, none = paths_of(
        spark,
        rows,
        simple("n", "region"),
        simple("n", "region", url_encode=True),
        simple("n", "region", hive_style=True, url_encode=True),
        simple("n", "region", "n", hive_style=True),
        simple("n"),
    )
    assert plain == ["eu/west", "a b", default, default, 'ü?=:%"^[]{}\\', "\x01*#'\x7f"]
    assert encoded == escaped
    assert hive == [f"region={text}" for text in escaped]
    assert two[:4] == [
        "region=eu/west/n=1",
        f"region=a b/n={default}",
        f"region={default}/n=3",
        f"region={default}/n={default}",
    ]
    assert none == [""] * 6


def test_missing_and_nested_key_fields_are_refused_by_name(spark: SparkSession) -> None:
    batch = _batch(pa.Table.from_pylist([TYPED_ROW], schema=TYPED))
    schema = spark.createDataFrame(pa.Table.from_batches([batch])).schema
    for name in ("absent", "deep.other", "text.inner"):
        with pytest.raises(ConfigError, match=f"key field '{name}' is not a column"):
            record_key_column(simple(name), schema)
        with pytest.raises(ConfigError, match=f"key field '{name}' is not a column"):
            partition_path_column(simple("text", name), schema)
        with pytest.raises(ConfigError, match=f"key field '{name}' is not a column"):
            record_keys(batch, simple(name))
        with pytest.raises(ConfigError, match=f"key field '{name}' is not a column"):
            partition_paths(batch, simple("text", name))
    with pytest.raises(ConfigError, match="key field 'deep' has a nested type"):
        record_key_column(simple("deep"), schema)
    with pytest.raises(ConfigError, match="key field 'deep' has a nested type"):
        record_keys(batch, simple("deep"))


def timed(settings: Mapping[str, str], **key_settings: bool) -> KeyGenerator:
    properties = {f"hoodie.keygen.timebased.{name}": text for name, text in settings.items()}
    properties.setdefault("hoodie.keygen.timebased.output.dateformat", "yyyy-MM-dd HH:mm:ss.SSS")
    part = PartitionField("t", TimestampFormat.from_properties(properties))
    return simple("t", part, **key_settings)


def scalar(unit: str) -> dict[str, str]:
    return {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": unit}


def test_numbers_count_units_since_the_epoch(spark: SparkSession) -> None:
    unix = {"timestamp.type": "UNIX_TIMESTAMP"}
    numbers = pa.table({"t": pa.array([1704470400, -1, 0, None], pa.int64())})
    found = paths_of(
        spark,
        numbers,
        timed(unix),
        timed({**unix, "output.timezone": "Asia/Tokyo"}),
        timed({**unix, "input.timezone": "Asia/Tokyo"}),
        timed({**unix, "timezone": "GMT+8:00"}),
        timed({"timestamp.type": "EPOCHMILLISECONDS"}),
        timed({**unix, "output.dateformat": "YYYY/MM/dd/HH 'at' h a E"}),
        timed({**unix, "output.dateformat": "yyyy/MM/dd HH:mm"}, hive_style=True, url_encode=True),
    )
    assert [paths[0] for paths in found] == [
        "2024-01-05 16:00:00.000",
        "2024-01-06 01:00:00.000",
        "2024-01-05 16:00:00.000",
        "2024-01-06 00:00:00.000",
        "1970-01-20 17:27:50.400",
        "2024/01/05/16 at 4 PM Fri",
        "t=2024%2F01%2F05 16%3A00",
    ]
    assert found[0][1:] == [
        "1969-12-31 23:59:59.000",
        "1970-01-01 00:00:00.000",
        "1970-01-01 00:00:01.000",
    ]
    assert found[4][1:] == [
        "1969-12-31 23:59:59.999",
        "1970-01-01 00:00:00.000",
        "1970-01-01 00:00:00.001",
    ]


def test_scalars_have_a_unit_and_are_cut_to_milliseconds(spark: SparkSession) -> None:
    units = ("DAYS", "HOURS", "seconds", "MICROSECONDS", "NANOSECONDS")
    generators = [timed(scalar(unit)) for unit in units]
    rows = pa.table({"t": pa.array([19727, -1, None, 1704470400123456], pa.int64())})
    days, hours, seconds, micros, nanos = paths_of(spark, rows, *generators)
    assert days[:3] == [
        "2024-01-05 00:00:00.000",
        "1969-12-31 00:00:00.000",
        "1970-01-02 00:00:00.000",
    ]
    assert hours[0] == "1972-04-01 23:00:00.000"
    assert seconds[2] == "1970-01-01 00:00:01.000"
    assert micros == [
        "1970-01-01 00:00:00.019",
        "1970-01-01 00:00:00.000",
        "1970-01-01 00:00:00.000",
        "2024-01-05 16:00:00.123",
    ]
    assert nanos[3] == "1970-01-20 17:27:50.400"
    # Hudi makes a year of nine digits of these; no path at all is refused later.
    assert (days[3], hours[3], seconds[3]) == (None, None, None)


def test_dates_count_days_and_timestamps_microseconds(spark: SparkSession) -> None:
    day = pa.table({"t": pa.array([dt.date(2024, 1, 5)], pa.date32())})
    assert paths_of(spark, day, timed(scalar("DAYS"))) == [["2024-01-05 00:00:00.000"]]
    moment = pa.table({"t": pa.array([TYPED_ROW["at"], None], pa.timestamp("us", "UTC"))})
    text = timed(
        {"timestamp.type": "UNIX_TIMESTAMP", "output.timezone": "Asia/Tokyo"},
        timestamps_as_text=True,
    )
    raw, as_text = paths_of(spark, moment, timed(scalar("MICROSECONDS")), text)
    assert raw[0] == "2024-01-05 18:00:00.123"
    assert as_text == ["2024-01-06 03:00:00.123", "1970-01-01 09:00:01.000"]
    fractions = pa.table({"t": pa.array([Decimal("1.9"), None], pa.decimal128(5, 1))})
    assert paths_of(spark, fractions, timed(scalar("SECONDS"))) == [
        ["1970-01-01 00:00:01.000", "1970-01-01 00:00:01.000"]
    ]


def test_text_is_read_by_the_first_format_that_fits(spark: SparkSession) -> None:
    formats = "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ,yyyyMMdd"
    text = {
        "timestamp.type": "DATE_STRING",
        "input.dateformat": formats,
        "output.dateformat": "yyyy-MM-dd HH:mm:ss",
    }
    pacific, indian = "2024-01-05T23:30:00-0800", "2024-01-05T23:30:00+05:30"
    values = [pacific, indian, "2024-01-05T23:30:00.123Z", "20240105", None, "junk", ""]
    rows = pa.table({"t": pa.array(values, pa.string())})
    zones = [
        {},
        {"output.timezone": "UTC"},
        {"input.timezone": "America/New_York", "output.timezone": "Asia/Tokyo"},
        {"input.timezone": "America/New_York"},
        {"timezone": "GMT+8:00"},
    ]
    found = paths_of(spark, rows, *[timed({**text, **zone}) for zone in zones])
    assert [paths[0] for paths in found] == [
        "2024-01-05 23:30:00",
        "2024-01-06 07:30:00",
        "2024-01-06 16:30:00",
        "2024-01-06 02:30:00",
        "2024-01-06 15:30:00",
    ]
    assert [paths[3] for paths in found] == [
        "2024-01-05 00:00:00",
        "2024-01-05 00:00:00",
        "2024-01-05 14:00:00",
        "2024-01-05 00:00:00",
        "2024-01-05 00:00:00",
    ]
    assert found[0][1:3] == ["2024-01-05 23:30:00", "2024-01-05 23:30:00"]
    assert [paths[4] for paths in found] == [
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:00",
        "1970-01-01 09:00:00",
        "1969-12-31 19:00:00",
        "1970-01-01 08:00:00",
    ]
    assert {path for paths in found for path in paths[5:]} == {None}


def test_time_settings_and_columns_have_to_fit(spark: SparkSession) -> None:
    text = {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyyMMdd"}
    schema = spark.createDataFrame(pa.table({"t": ["1"], "n": [1]})).schema
    with pytest.raises(ConfigError, match="UNIX_TIMESTAMP must be a number, date or timestamp"):
        partition_path_column(timed({"timestamp.type": "UNIX_TIMESTAMP"}), schema)
    part = PartitionField("n", timed(text).partition_fields[0].timestamp)
    with pytest.raises(ConfigError, match="DATE_STRING must be text"):
        partition_path_column(simple("t", part), schema)
    with pytest.raises(ConfigError, match="letter 'w' in a date format is not supported"):
        partition_path_column(timed({**text, "output.dateformat": "yyyy-ww"}), schema)
