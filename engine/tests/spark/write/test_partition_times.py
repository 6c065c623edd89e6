"""Partition paths formatted from times: in Arrow as Spark's expressions make them, over patterns,
zones and types, and what is left to Spark."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from decimal import Decimal
from itertools import product

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tideline.hudi.keys.key_generator import KeyGenerator, PartitionField, TimestampFormat
from tideline.hudi.keys.partition_time import unknown_pattern
from tideline.hudi.keys.row_keys import partition_paths
from tideline.spark.write.keys import partition_path_column

pytestmark = pytest.mark.spark

ZONES = (
    "America/New_York",
    "America/St_Johns",
    "Africa/Monrovia",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "GMT-9:30",
)
OUTPUTS = (
    "yyyy/MM/dd/HH",
    "YYYY-MM-dd HH:mm:ss.SSS",
    "yy M d H m s S SS SSSSSS",
    "'o''clock'/hh a KK k D DDD E EEEE MMM MMMM",
    "yyyyMMddHHmmss''y'y'",
    "'all'",
)
# In seconds: changes of time in these zones, by an hour, half an hour, a day, 44 minutes.
CHANGES = (
    -2717650800,
    63593070,
    1325239200,
    1711846800,
    1710054000,
    1730613600,
    1728142200,
    1712415600,
    561009060,
)


def timed(**settings: str) -> KeyGenerator:
    names = {name.replace("_", "."): text for name, text in settings.items()}
    properties = {f"hoodie.keygen.timebased.{name}": text for name, text in names.items()}
    return by_format(TimestampFormat.from_properties(properties))


def by_format(
    settings: TimestampFormat, *, hive_style: bool = False, timestamps_as_text: bool = False
) -> KeyGenerator:
    part = PartitionField("t", settings)
    return KeyGenerator(
        ("t",),
        (part,),
        qualified=False,
        hive_style=hive_style,
        url_encode=hive_style,
        timestamps_as_text=timestamps_as_text,
    )


def check(
    spark: SparkSession, column: pa.Array, many: Sequence[KeyGenerator]
) -> list[list[str | None]]:
    """The paths by each generator, which both engines make alike."""
    rows = pa.record_batch({"t": column})
    frame = spark.createDataFrame(pa.Table.from_batches([rows]))
    columns = [
        partition_path_column(keys, frame.schema).alias(str(number))
        for number, keys in enumerate(many)
    ]
    expected = frame.select(*columns).toArrow()
    found = []
    for number, keys in enumerate(many):
        (part,) = keys.partition_fields
        assert part.timestamp is not None and unknown_pattern(part.timestamp) is None
        found.append(partition_paths(rows, keys).to_pylist())
        theirs = expected.column(str(number)).to_pylist()
        differing = [
            row
            for row in zip(column.cast(pa.string()).to_pylist(), found[-1], theirs, strict=True)
            if row[1] != row[2]
        ]
        assert differing[:5] == [], part
    return found


def moments(seed: int) -> list[int]:
    """Milliseconds since the epoch: around changes of time, and of all ages."""
    shuffled = random.Random(seed)
    around = [
        second * 1000 + step for second in CHANGES for step in (-1, 0, 1, 1_799_999, -600_000)
    ]
    near = [shuffled.randrange(0, 2_000_000_000_000) for _ in range(100)]
    old = [shuffled.randrange(-5_000_000_000_000, 0) for _ in range(60)]
    any_year = [shuffled.randrange(-62_135_596_800_000, 253_402_300_800_000) for _ in range(40)]
    edges = [-62_135_596_800_001, -62_135_596_800_000, 253_402_300_799_999, 253_402_300_800_000]
    return [*around, *near, *old, *any_year, *edges, -1, 0, 1]


def test_numbers_are_formatted_in_every_zone(spark: SparkSession) -> None:
    formats = [
        timed(timestamp_type="EPOCHMILLISECONDS", output_dateformat=output, output_timezone=zone)
        for output, zone in product(OUTPUTS, ("UTC", *ZONES))
    ]
    found = check(spark, pa.array([*moments(1), None], pa.int64()), formats)
    assert {len({path for path in paths if path}) > 20 for paths in found[:-9]} == {True}
    assert {path for paths in found[-9:] for path in paths} == {"all", None}


@pytest.mark.parametrize("unit", ["DAYS", "HOURS", "SECONDS", "MICROSECONDS", "NANOSECONDS"])
def test_numbers_of_every_type_are_counted_in_units(spark: SparkSession, unit: str) -> None:
    keys = timed(
        timestamp_type="SCALAR",
        timestamp_scalar_time_unit=unit,
        output_dateformat="yyyy-MM-dd HH:mm:ss.SSSSSSSSS",
        output_timezone="Europe/Berlin",
    )
    long = [0, -1, 1, 999, -999, -1000, -1001, 10**15 + 7, -(10**15) - 7, 2**63 - 1, -(2**63), None]
    columns: list[pa.Array] = [
        pa.array(long, pa.int64()),
        pa.array([-128, 127, None], pa.int8()),
        pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
        pa.array([1.9, -1.9, 1e12, -1e300, 1e300, float("inf"), None], pa.float64()),
        pa.array([1.9, -1.9, 1e30, None], pa.float32()),
        pa.array([Decimal("1.9"), Decimal("-1.9"), None], pa.decimal128(9, 1)),
        pa.array([Decimal(10) ** 37, -(Decimal(10) ** 37), Decimal(7), None], pa.decimal128(38, 0)),
        pa.array([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31), None]),
        pa.array([*moments(2), None], pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array([*moments(3), None], pa.int64()).cast(pa.timestamp("us")),
    ]
    for column in columns:
        check(spark, column, [keys])


def test_timestamps_that_are_moments_are_cut_to_milliseconds(spark: SparkSession) -> None:
    micros = pa.array([*[moment * 1000 + 999 for moment in moments(4)], None], pa.int64())
    formats = [
        TimestampFormat.from_properties(
            {
                "hoodie.keygen.timebased.timestamp.type": kind,
                "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
                "hoodie.keygen.timebased.input.dateformat": "yyyyMMdd",
                "hoodie.keygen.timebased.output.timezone": zone,
            }
        )
        for kind, zone in product(("UNIX_TIMESTAMP", "DATE_STRING", "EPOCHMICROSECONDS"), ZONES)
    ]
    keys = [by_format(timestamp_format, timestamps_as_text=True) for timestamp_format in formats]
    found = check(spark, micros.cast(pa.timestamp("us", "UTC")), keys)
    assert {path[-3:] for paths in found for path in paths if path} == {"000"}


INPUTS = (
    "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ,yyyyMMdd",
    "yyyyMMddHHmmss,yyyy-MM-dd HH:mm:ss.SSSSSS,yyyy-MM-dd",
    "d/M/yyyy H:m,dd.MM.yyyy HH:mm:ss ZZ,yyyy",
    "'on' yyyy/MM/dd,HH:mm yyyyMMdd,MM/dd/yyyy",
)
ZONED: tuple[dict[str, str], ...] = (
    {},
    {"output_timezone": "UTC"},
    {"input_timezone": "America/New_York", "output_timezone": "Pacific/Apia"},
    {"input_timezone": "Australia/Lord_Howe"},
    {"timezone": "Europe/Berlin"},
    {"timezone": "Africa/Monrovia"},
)


def texts(seed: int) -> list[str]:
    """Times as text in many forms, and what is almost one."""
    shuffled = random.Random(seed)
    shapes = (
        "{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}{off}",
        "{y:04}-{mo:02}-{d:02}t{h:02}:{mi:02}:{s:02}.{f}{off}",
        "{y:04}{mo:02}{d:02}",
        "{y:04}{mo:02}{d:02}{h:02}{mi:02}{s:02}",
        "{y:04}-{mo:02}-{d:02} {h:02}:{mi:02}:{s:02}.{f}",
        "{y:04}-{mo:02}-{d:02}",
        "{d}/{mo}/{y:04} {h}:{mi}",
        "{d:02}.{mo:02}.{y:04} {h:02}:{mi:02}:{s:02} {off}",
        "{y}",
        "On {y:04}/{mo:02}/{d:02}",
        "{h:02}:{mi:02} {y:04}{mo:02}{d:02}",
        "{mo:02}/{d:02}/{y:04}",
        " {y:04}-{mo:02}-{d:02}",
        "{y:04}-{mo:02}-{d:02} ",
        "{y}-{mo}-{d}",
        "+{y:04}-{mo:02}-{d:02}",
        "-{y:04}-{mo:02}-{d:02}",
    )
    offsets = (
        "Z",
        "z",
        "+01:00",
        "-0930",
        "+18:00",
        "+1801",
        "-00:00",
        "+0160",
        "+5",
        "",
        "+01:00Z",
    )
    found = []
    for shape, off in product(shapes, offsets):
        for _ in range(6 if "off" in shape else 3):
            values = {
                "y": shuffled.choice((2024, 1883, 1582, 1, 0, 9999, 12024, 2011, 1996)),
                "mo": shuffled.choice((1, 2, 3, 10, 11, 12, 13, 0)),
                "d": shuffled.choice((1, 3, 10, 29, 30, 31, 32, 0)),
                "h": shuffled.choice((0, 1, 2, 12, 23, 24)),
                "mi": shuffled.choice((0, 7, 30, 59, 60)),
                "s": shuffled.choice((0, 59, 60)),
                "f": shuffled.choice(("1", "12", "123", "1234", "123456", "1234567", "")),
            }
            found.append(shape.format(**values, off=off))
    gaps = [
        f"{day}{sep}{time}"
        for day, sep in product(("2024-03-10", "2024-03-31", "2011-12-30", "2024-10-06"), "T ")
        for time in ("02:30:00.0", "02:30:00.0Z", "02:15:00", "02:15:00Z")
    ]
    overlaps = [f"{day} 01:45:00.5" for day in ("2024-11-03", "2024-04-07", "1972-01-06")]
    return [*found, *gaps, *overlaps, "20111230000000", "20241103013000", "2024-02-30", "junk", ""]


@pytest.mark.parametrize("inputs", INPUTS)
def test_text_is_read_in_every_zone(spark: SparkSession, inputs: str) -> None:
    output = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    settings = {"input_dateformat": inputs, "output_dateformat": output}
    formats = [timed(timestamp_type="DATE_STRING", **settings, **zones) for zones in ZONED]
    found = check(spark, pa.array([*texts(1), None], pa.string()), formats)
    assert all(len({path for path in paths if path}) > 15 for paths in found)
    assert all(paths.count(None) > 20 for paths in found)


def test_paths_are_in_hive_style_and_encoded(spark: SparkSession) -> None:
    settings = timed(timestamp_type="EPOCHMICROSECONDS", output_dateformat="yyyy/MM/dd' %'HH:mm")
    (part,) = settings.partition_fields
    assert part.timestamp is not None
    keys = by_format(part.timestamp, hive_style=True)
    rows = pa.array([1704470400123456, None, 2**62], pa.int64())
    assert check(spark, rows, [keys]) == [
        ["t=2024%2F01%2F05 %2516%3A00", "t=1970%2F01%2F01 %2500%3A00", None]
    ]


def test_random_patterns_are_printed_alike(spark: SparkSession) -> None:
    shuffled = random.Random(7)
    fields: tuple[str, ...] = (
        "y",
        "yy",
        "yyyy",
        "YYYYY",
        "M",
        "MM",
        "MMM",
        "MMMM",
        "d",
        "dd",
        "D",
        "DDD",
        "E",
    )
    fields += ("EEEE", "a", "H", "HH", "h", "hh", "K", "KK", "k", "kk", "m", "mm", "s", "ss")
    fields += ("S", "SS", "SSS", "SSSSSSSSS")
    between = ("", "-", "/", ":", " ", "''", "'T'", "'it''s é'", ".", "_", ",", "?", "%", "1")
    patterns = []
    for _ in range(60):
        pattern = ""
        for _ in range(5):
            field, text = shuffled.choice(fields), shuffled.choice(between)
            # Two runs of one letter would be one.
            if field[0].lower() != pattern[-1:].lower():
                pattern += field + text
        patterns.append(pattern)
    formats = [
        timed(
            timestamp_type="EPOCHMILLISECONDS",
            output_dateformat=pattern,
            output_timezone=shuffled.choice(ZONES),
        )
        for pattern in patterns
    ]
    check(spark, pa.array(moments(5), pa.int64()), formats)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"output_dateformat": "yyyy-ww"}, "output format 'yyyy-ww'"),
        ({"output_dateformat": "yyyy [MM]"}, "output format 'yyyy [MM]'"),
        ({"output_dateformat": "yyyy'"}, 'output format "yyyy\'"'),
        ({"output_dateformat": "yyyy Z"}, "output format 'yyyy Z'"),
        ({"output_dateformat": "QQ"}, "output format 'QQ'"),
        ({"input_dateformat": "MM-dd"}, "input format 'MM-dd'"),
        ({"input_dateformat": "yy-MM-dd"}, "input format 'yy-MM-dd'"),
        ({"input_dateformat": "yyyyMMdd hh a"}, "input format 'yyyyMMdd hh a'"),
        ({"input_dateformat": "yyyyMMdd mm"}, "input format 'yyyyMMdd mm'"),
        ({"input_dateformat": "yyyyMMddHHmmssSSS"}, "input format 'yyyyMMddHHmmssSSS'"),
        ({"input_dateformat": "yyyyMd"}, "input format 'yyyyMd'"),
        ({"input_dateformat": "yyyy'1'MM"}, "input format \"yyyy'1'MM\""),
        ({"input_dateformat": "yyyyMMdd ZZZ"}, "input format 'yyyyMMdd ZZZ'"),
        ({"input_dateformat": "Z yyyyMMdd"}, "input format 'Z yyyyMMdd'"),
        ({"input_dateformat": "yyyy-yyyy"}, "input format 'yyyy-yyyy'"),
        ({"timezone": "PST"}, "time zone 'PST'"),
        ({"timezone": "UTC+8"}, "time zone 'UTC+8'"),
        ({"timezone": "GMT+19"}, "time zone 'GMT+19'"),
        ({"timezone": "Mars/Olympus_Mons"}, "time zone 'Mars/Olympus_Mons'"),
        ({"timezone": "America/../zone.tab"}, "time zone 'America/../zone.tab'"),
    ],
)
def test_what_may_be_read_in_two_ways_is_named(settings: dict[str, str], what: str) -> None:
    plain = {"input_dateformat": "yyyyMMdd", "output_dateformat": "yyyy"}
    keys = timed(timestamp_type="DATE_STRING", **{**plain, **settings})
    (part,) = keys.partition_fields
    assert part.timestamp is not None
    assert unknown_pattern(part.timestamp) == what
