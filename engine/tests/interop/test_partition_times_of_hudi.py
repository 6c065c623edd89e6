"""Partition paths formatted from times and timestamps as text in keys, in Arrow, against Hudi's."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.keys.key_generator import KeyGenerator, PartitionField, TimestampFormat
from tideline.hudi.keys.partition_time import unknown_pattern
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ZONES = ("America/New_York", "Africa/Monrovia", "Australia/Lord_Howe", "Pacific/Apia", "GMT-9:30")
OUTPUTS = (
    "yyyy/MM/dd/HH",
    "YYYY-MM-dd HH:mm:ss.SSSSSS",
    "yy M d H m s S SS",
    "'o''clock'/hh a KK k D DDD E EEEE MMM MMMM",
    "yyyyMMddHHmmss''y'y'[]",
)
DAY = 86_400_000
WRITE = "hoodie.datasource.write."
HIVE = f"{WRITE}hive_style_partitioning"
ENCODED = f"{WRITE}partitionpath.urlencode"
AS_TEXT = f"{WRITE}keygenerator.consistent.logical.timestamp.enabled"


def timed(**settings: str) -> dict[str, str]:
    return {
        f"hoodie.keygen.timebased.{name.replace('_', '.')}": text for name, text in settings.items()
    }


def ours(column: pa.Array, options: Mapping[str, str]) -> list[str | None]:
    settings = TimestampFormat.from_properties(options)
    assert unknown_pattern(settings) is None
    keys = KeyGenerator(
        ("t",),
        (PartitionField("t", settings),),
        qualified=False,
        hive_style=HIVE in options,
        url_encode=ENCODED in options,
        timestamps_as_text=AS_TEXT in options,
    )
    found: list[str | None] = partition_paths(pa.record_batch({"t": column}), keys).to_pylist()
    return found


def check(
    hudi_peer: HudiPeer,
    column: pa.Array,
    options: Mapping[str, str],
    given: Sequence[Any] | None = None,
) -> list[str | None]:
    """The paths, which are Hudi's; `given` are the values as its peer takes them."""
    found = ours(column, options)
    named = {
        f"{WRITE}recordkey.field": "t",
        f"{WRITE}partitionpath.field": "t",
        **options,
    }
    values = column.to_pylist() if given is None else given
    theirs = hudi_peer.partition_paths(named, values)
    rows = zip(values, found, theirs, strict=True)
    assert [row for row in rows if row[1] != row[2]][:5] == [], options
    return found


def moments(seed: int) -> list[int]:
    """Milliseconds since the epoch, from the year 1 to 9999, many near changes of time."""
    shuffled = random.Random(seed)
    changes = (63593070, 1325239200, 1710054000, 1730613600, 1728142200, 1712415600)
    around = [second * 1000 + step for second in changes for step in (-1, 0, 1_799_999, -600_000)]
    near = [shuffled.randrange(0, 2_000_000_000_000) for _ in range(60)]
    old = [shuffled.randrange(-5_000_000_000_000, 0) for _ in range(40)]
    any_year = [shuffled.randrange(-62_130_000_000_000, 253_402_000_000_000) for _ in range(30)]
    return [*around, *near, *old, *any_year, -1, 0, 1]


@pytest.mark.parametrize("output", OUTPUTS[:-1])
def test_numbers_are_formatted_as_by_hudi(hudi_peer: HudiPeer, output: str) -> None:
    column = pa.array([*moments(1), None], pa.int64())
    for zone in ("UTC", *ZONES):
        options = timed(
            timestamp_type="EPOCHMILLISECONDS", output_dateformat=output, output_timezone=zone
        )
        found = check(hudi_peer, column, options)
        assert len(set(found)) > 30


@pytest.mark.parametrize("unit", ["DAYS", "HOURS", "SECONDS", "MICROSECONDS", "NANOSECONDS"])
def test_numbers_of_every_type_count_as_in_hudi(hudi_peer: HudiPeer, unit: str) -> None:
    options = timed(
        timestamp_type="SCALAR",
        timestamp_scalar_time_unit=unit,
        output_dateformat="yyyy-MM-dd HH:mm:ss.SSSSSSSSS",
        timezone="America/New_York",
    )
    numbers = [0, -1, 1, 999, -999, -1000, -1001, 19727, -19727, None]
    check(hudi_peer, pa.array(numbers, pa.int64()), options)
    check(hudi_peer, pa.array([1.9, -1.9, 19727.5, None], pa.float64()), options)
    digits = ["1.9", "-1.9", "19727.5"]
    given = [["decimal", text] for text in digits]
    check(hudi_peer, pa.array(map(Decimal, digits), pa.decimal128(9, 1)), options, given)
    if unit == "DAYS":
        days = [-719_161, -1, 0, 19727]
        dates = [dt.date(1970, 1, 1) + dt.timedelta(days=number) for number in days]
        check(hudi_peer, pa.array(dates), options, [["date", number] for number in days])


def test_timestamps_that_are_moments_are_formatted_as_by_hudi(hudi_peer: HudiPeer) -> None:
    times = moments(2)
    beyond = [time * 1000 + (999 if time >= 0 else -999) for time in times]
    micros = pa.array([*beyond, None], pa.int64())
    for kind, zone in product(("UNIX_TIMESTAMP", "EPOCHMICROSECONDS"), ZONES):
        options = {
            **timed(
                timestamp_type=kind,
                output_dateformat="yyyy-MM-dd HH:mm:ss.SSSSSS",
                output_timezone=zone,
            ),
            AS_TEXT: "true",
        }
        given = [*[["timestamp", time] for time in times], None]
        check(hudi_peer, micros.cast(pa.timestamp("us", "UTC")), options, given)


INPUTS = {
    "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ,yyyyMMdd": (
        "2024-01-05T23:30:00-0800",
        "2024-01-05T23:30:00+05:30",
        "2024-03-10t02:30:00.12z",
        "18830105",
        "00010203",
    ),
    "yyyyMMddHHmmss,yyyy-MM-dd HH:mm:ss.SSSSSS,yyyy-MM-dd": (
        "20240105233000",
        "2024-01-05 01:02:03.123456",
        "2024-11-03 01:30:00.5",
        "2024-04-07 01:45:00.5",
        "1582-10-10",
    ),
    "d/M/yyyy H:m,dd.MM.yyyy HH:mm:ss ZZ,yyyy": (
        "5/1/2024 7:8",
        "05.01.2024 07:08:09 -01:30",
        "2011",
    ),
    "'on' yyyy/MM/dd,HH:mm yyyyMMdd,MM/dd/yyyy": (
        "On 2024/01/05",
        "23:59 20241231",
        "02/29/2024",
    ),
}
REFUSED = ("junk", "", "2024-13-01", "2024-02-30", " 2024-01-05", "2024-01-05 ", "24:00 20240105")
ZONED: tuple[dict[str, str], ...] = (
    {},
    {"output_timezone": "UTC"},
    {"input_timezone": "America/New_York", "output_timezone": "Pacific/Apia"},
    {"input_timezone": "Australia/Lord_Howe"},
    {"timezone": "Europe/London"},
)


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("kind", ["DATE_STRING", "MIXED"])
def test_text_is_read_as_by_hudi(hudi_peer: HudiPeer, inputs: str, kind: str) -> None:
    column = pa.array([*INPUTS[inputs], *REFUSED, None], pa.string())
    for zones in ZONED:
        output = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
        settings = timed(
            timestamp_type=kind, input_dateformat=inputs, output_dateformat=output, **zones
        )
        found = check(hudi_peer, column, settings)
        assert found.count(None) == len(REFUSED)


def test_paths_in_hive_style_and_encoded_are_hudis(hudi_peer: HudiPeer) -> None:
    options = {
        **timed(timestamp_type="EPOCHMICROSECONDS", output_dateformat="yyyy/MM/dd' %'HH:mm"),
        HIVE: "true",
        ENCODED: "true",
    }
    found = check(hudi_peer, pa.array([1704470400123456, None], pa.int64()), options)
    assert found == ["t=2024%2F01%2F05 %2516%3A00", "t=1970%2F01%2F01 %2500%3A00"]


def test_timestamps_as_text_in_keys_are_hudis(hudi_peer: HudiPeer, tmp_path: Path) -> None:
    day = dt.datetime(1900, 1, 2, tzinfo=dt.UTC)
    shuffled = random.Random(9)
    times = [
        day + dt.timedelta(microseconds=shuffled.randrange(0, 10**16) // step * step)
        for step in (1, 10, 1000, 1_000_000, 60_000_000)
        for _ in range(20)
    ]
    local = [time.replace(tzinfo=None) for time in times]
    rows = pa.table(
        {
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "part": pa.array([times[0]] * 99 + [None], pa.timestamp("us", "UTC")),
            "local": pa.array(local, pa.timestamp("us")),
            "v": list(range(100)),
        }
    )
    options = {
        "hoodie.table.name": "theirs",
        f"{WRITE}recordkey.field": "t,local",
        f"{WRITE}partitionpath.field": "part",
        f"{WRITE}precombine.field": "v",
        AS_TEXT: "true",
        ENCODED: "true",
        "hoodie.metadata.enable": "false",
    }
    hudi_peer.write(str(tmp_path / "theirs"), rows, operation="insert", options=options)
    found = hudi_peer.read(str(tmp_path / "theirs")).sort_by("v")
    keys = KeyGenerator(
        ("t", "local"),
        (PartitionField("part"),),
        qualified=True,
        url_encode=True,
        timestamps_as_text=True,
    )
    batch = rows.combine_chunks().to_batches()[0]
    assert record_keys(batch, keys).to_pylist() == found["_hoodie_record_key"].to_pylist()
    assert partition_paths(batch, keys).to_pylist() == found["_hoodie_partition_path"].to_pylist()
