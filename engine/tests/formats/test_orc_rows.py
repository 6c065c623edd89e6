"""Rows of ORC files: in batches, only some columns, and times as the moments that they are."""

from __future__ import annotations

from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.orc_rows import OrcRows
from tideline.formats.orc_zone import writer_zones

NOON = datetime(2024, 1, 1, 12)
SUMMER = datetime(2024, 7, 1, 12)
# This hour there was twice in central Europe.
TWICE = datetime(2010, 10, 31, 1, 30)


def orc_file(columns: dict[str, Any], zone: str = "GMT", **options: Any) -> BytesIO:
    """A file as a writer in that zone makes it. Arrow's writer knows UTC alone."""
    stream = BytesIO()
    orc.write_table(pa.table(columns), stream, **options)
    body = stream.getvalue()
    assert body.count(b"GMT") >= 1
    assert len(zone) == 3
    return BytesIO(body.replace(b"GMT", zone.encode()))


def times(*values: datetime) -> pa.Array:
    return pa.array(values, pa.timestamp("us"))


def read(stream: BytesIO, *names: str) -> list[dict[str, Any]]:
    rows = OrcRows(stream, path="f.orc")
    return [row for batch in rows.batches(names) for row in batch.to_pylist()]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd"])
def test_the_zone_of_the_writer_is_found_in_every_stripe(codec: str) -> None:
    count = 50_000
    stream = BytesIO()
    noise = np.random.default_rng(1).integers(0, 2**62, count)
    table = pa.table({"n": noise, "t": times(*[NOON] * count)})
    orc.write_table(table, stream, compression=codec, stripe_size=1024)
    file = orc.ORCFile(stream)
    assert file.nstripes > 1
    assert writer_zones(stream) == ("GMT",) * file.nstripes


@pytest.mark.parametrize(("zone", "first_of_2015"), [("GMT", 0), ("EST", 5 * 3600), ("CET", -3600)])
def test_times_are_moments_whatever_the_clock_of_the_writer_showed(
    zone: str, first_of_2015: int
) -> None:
    """What is stored counts from the first moment of 2015 there."""
    inner = pa.StructArray.from_arrays([times(NOON, SUMMER)], ["at"])
    rows = read(orc_file({"t": times(NOON, SUMMER), "s": inner}, zone), "t", "s")
    wanted = [seconds(candidate) + first_of_2015 for candidate in (NOON, SUMMER)]
    assert [seconds(row["t"]) for row in rows] == wanted
    assert [seconds(row["s"]["at"]) for row in rows] == wanted


def seconds(time: datetime) -> int:
    """Since 1970, of a moment, or of what a clock in UTC shows."""
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())


def test_an_hour_that_a_clock_showed_twice_is_refused_by_name() -> None:
    stream = orc_file({"n": [1], "t": times(TWICE)}, "CET")
    assert read(stream, "n") == [{"n": 1}]
    with pytest.raises(UnsupportedTableError, match=r"(?s)column t .* clock in CET.*f\.orc"):
        read(stream, "t")


def test_times_in_lists_are_refused_unless_the_clock_was_utc() -> None:
    columns = {"l": pa.array([[NOON]], pa.list_(pa.timestamp("us")))}
    assert read(orc_file(columns), "l")[0]["l"][0].replace(tzinfo=None) == NOON
    with pytest.raises(UnsupportedTableError, match="column l"):
        read(orc_file(columns, "EST"), "l")


def test_times_with_a_zone_and_days_need_no_clock() -> None:
    moments = pa.array([NOON], pa.timestamp("us", "UTC"))
    days = pa.array([NOON.date()])
    rows = read(orc_file({"z": moments, "d": days, "t": times(NOON)}, "EST"), "z", "d")
    assert rows == [{"z": pa.scalar(NOON.replace(tzinfo=UTC), pa.timestamp("ns", "UTC")).as_py(),
                     "d": NOON.date()}]  # fmt: skip


def test_times_beyond_what_arrow_counts_are_not_read_as_others() -> None:
    with pytest.raises(pa.ArrowInvalid, match="out of range"):
        read(orc_file({"t": times(datetime(9999, 12, 31))}), "t")


def test_batches_are_sized_by_bytes_and_rows_counted_without_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_BYTES", 1)
    monkeypatch.setattr("tideline.formats.row_batches._BATCH_ROWS_MIN", 7)
    rows = OrcRows(orc_file({"n": range(20), "t": times(*[NOON] * 20)}), path="f.orc")
    assert [batch.num_rows for batch in rows.batches(["n"])] == [7, 7, 6]
    assert sum(batch.num_rows for batch in rows.batches([])) == rows.row_count == 20


def test_a_file_of_too_many_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_COLUMNS_MAX", "2")
    inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "b"])
    with pytest.raises(UnsupportedTableError, match="4 columns are more than the 2"):
        OrcRows(orc_file({"n": [1], "s": inner, "t": times(NOON)}), path="f.orc")


@pytest.mark.parametrize("cut", [0, 1, 5, 40])
def test_a_footer_that_is_cut_short_is_named(cut: int) -> None:
    body = orc_file({"t": times(NOON)}).getvalue()
    with pytest.raises(CorruptTableError, match=r"f\.orc"):
        writer_zones(BytesIO(body[: cut or 0]), path="f.orc")
