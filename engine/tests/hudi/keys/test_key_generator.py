"""Which columns make keys and partitions, as a table's properties say."""

from __future__ import annotations

from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.hudi.keys.key_generator import (
    ESCAPED_CHARACTERS,
    KeyGenerator,
    PartitionField,
    TimestampFormat,
    TimestampType,
    TimeUnit,
)
from tideline.hudi.table.properties import TableConfig

TIMEBASED = "hoodie.keygen.timebased."
HOURLY = {
    f"{TIMEBASED}timestamp.type": "UNIX_TIMESTAMP",
    f"{TIMEBASED}output.dateformat": "yyyy/MM/dd/HH",
}


def table(keys: str, partitions: str = "", kind: str = "", **more: str) -> TableConfig:
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.recordkey.fields": keys,
        "hoodie.table.partition.fields": partitions,
        **more,
    }
    if kind:
        properties["hoodie.table.keygenerator.class"] = f"org.apache.hudi.keygen.{kind}KeyGenerator"
    return TableConfig(properties)


@pytest.mark.parametrize(
    ("settings", "qualified", "partitions"),
    [
        (("id", "day"), False, ["day"]),
        (("id",), False, []),
        (("id,line", "day"), True, ["day"]),
        (("id", "day,region"), True, ["day", "region"]),
        (("id", "day", "Simple"), False, ["day"]),
        (("id", "day", "Complex"), True, ["day"]),
        (("id", "", "Nonpartitioned"), False, []),
        (("id", "day", "Nonpartitioned"), False, []),
        (("id,line", "", "Nonpartitioned"), True, []),
    ],
)
def test_keys_of_several_fields_and_complex_ones_name_their_fields(
    settings: tuple[str, ...], qualified: bool, partitions: list[str]
) -> None:
    keys = KeyGenerator.from_config(table(*settings))
    assert keys.qualified is qualified
    assert [part.field for part in keys.partition_fields] == partitions


def test_stored_keys_decide_how_a_complex_key_of_one_field_is_spelled() -> None:
    complex_table = table("id", "day", "Complex")
    for stored, qualified in (("7", False), ("id:7", True), ("idle:7", False), (None, True)):
        keys = KeyGenerator.from_config(complex_table, stored_key=stored)
        assert keys.qualified is qualified
    several = table("id,line", "day", "Complex")
    assert KeyGenerator.from_config(several, stored_key="7").qualified


def test_flags_come_from_the_table() -> None:
    write = "hoodie.datasource.write."
    flags = {
        f"{write}hive_style_partitioning": "true",
        f"{write}partitionpath.urlencode": "true",
        f"{write}keygenerator.consistent.logical.timestamp.enabled": "true",
    }
    keys = KeyGenerator.from_config(table("id", "day", **flags))
    assert (keys.hive_style, keys.url_encode, keys.timestamps_as_text) == (True, True, True)
    keys = KeyGenerator.from_config(table("id", "day"))
    assert (keys.hive_style, keys.url_encode, keys.timestamps_as_text) == (False, False, False)


def test_a_table_without_key_fields_has_no_keys() -> None:
    with pytest.raises(ConfigError, match="the table has no record key fields"):
        KeyGenerator.from_config(table(""))


def test_custom_partitions_are_plain_or_times_each_on_its_own() -> None:
    keys = KeyGenerator.from_config(table("id", "region:SIMPLE,at:TIMESTAMP", "Custom", **HOURLY))
    region, at = keys.partition_fields
    assert region == PartitionField("region")
    assert at.field == "at" and at.timestamp is not None
    assert at.timestamp.output_format == "yyyy/MM/dd/HH"
    timed = KeyGenerator.from_config(table("id", "at", "TimestampBased", **HOURLY))
    assert timed.partition_fields == (at,)


def read(**settings: str) -> TimestampFormat:
    return TimestampFormat.from_properties(
        {f"{TIMEBASED}{name.replace('_', '.')}": value for name, value in settings.items()}
    )


def test_time_settings_have_old_names_and_defaults() -> None:
    old = {name.replace("keygen", "deltastreamer.keygen"): value for name, value in HOURLY.items()}
    assert TimestampFormat.from_properties(old) == TimestampFormat.from_properties(HOURLY)
    found = TimestampFormat.from_properties(HOURLY)
    assert found == TimestampFormat(TimestampType.UNIX_TIMESTAMP, "yyyy/MM/dd/HH")
    assert (found.unit, found.input_zone, found.output_zone) == (TimeUnit.SECONDS, None, None)


def test_units_and_zones() -> None:
    out: dict[str, Any] = {"output_dateformat": "yyyy"}
    assert read(timestamp_type="EPOCHMILLISECONDS", **out).unit is TimeUnit.MILLISECONDS
    assert read(timestamp_type="SCALAR", **out).unit is TimeUnit.SECONDS
    days = read(timestamp_type="SCALAR", timestamp_scalar_time_unit="days", **out)
    assert days.unit is TimeUnit.DAYS
    zones = read(timestamp_type="SCALAR", input_timezone="A", output_timezone="B", **out)
    assert (zones.input_zone, zones.output_zone) == ("A", "B")
    timestamp_format = read(timestamp_type="SCALAR", timezone="C", input_timezone="A", **out)
    assert (timestamp_format.input_zone, timestamp_format.output_zone) == ("C", "C")


def test_text_formats_are_a_list_with_a_separator_of_its_own() -> None:
    text: dict[str, Any] = {"timestamp_type": "DATE_STRING", "output_dateformat": "yyyy"}
    assert read(input_dateformat="yyyyMMdd, yyyy", **text).input_formats == ("yyyyMMdd", "yyyy")
    separated = read(input_dateformat="a,b;c", input_dateformat_list_delimiter_regex=";", **text)
    assert separated.input_formats == ("a,b", "c")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "timestamp.type must be one of UNIX_TIMESTAMP, EPOCHMILLISECONDS"),
        ({"timestamp_type": "EPOCH"}, "must be one of .*value=EPOCH"),
        ({"timestamp_type": "SCALAR"}, "output.dateformat is required"),
        (
            {
                "timestamp_type": "SCALAR",
                "output_dateformat": "y",
                "timestamp_scalar_time_unit": "WEEKS",
            },
            "time.unit must be one of DAYS, HOURS.*value=WEEKS",
        ),
        (
            {"timestamp_type": "DATE_STRING", "output_dateformat": "yyyy"},
            "input.dateformat is required for DATE_STRING",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(
    settings: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**settings)


def test_hudi_escapes_these_characters() -> None:
    """As its PartitionPathEncodeUtils does for each of the first 128."""
    codes = [*range(0x20), 34, 35, 37, 39, 42, 47, 58, 61, 63, 91, 92, 93, 94, 123, 127]
    assert sorted(map(ord, ESCAPED_CHARACTERS)) == codes
