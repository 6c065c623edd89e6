"""Times in keys and partition paths are spelled as the table has them, or refused by name."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.keys.key_generator import KeyGenerator
from tideline.hudi.keys.row_keys import partition_paths, record_keys
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.write.key_spelling import key_generator
from tideline.testing.hand_written_table import HandWrittenTable

AT = pa.timestamp("us", "UTC")
MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
MICROS, TEXT, IN_TOKYO = "1704164645000000", "2024-01-02 03:04:05.0", "2024-01-02 12:04:05.0"
OF_SQL = "2024-01-02 03%3A04%3A05"
AS_TEXT = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"


def keyed(
    folder: Path, *keys: str, kind: pa.DataType = AT, value: Any = MOMENT, **definition: Any
) -> HandWrittenTable:
    """A table whose column `at` has this value under these keys: the first column is the key."""
    schema = pa.schema([("stored", pa.string()), ("id", pa.int64()), ("at", kind)])
    table = HandWrittenTable.create(folder, schema, **{"record_key": ("at",), **definition})
    for number, key in enumerate(keys):
        rows = pa.table({"stored": [key], "id": [1], "at": pa.array([value], kind)}, schema)
        table.commit(f"{number + 1}", {("", f"f{number}"): rows})
    return table


@pytest.mark.parametrize("record_key", [("at",), ("id", "at")])
@pytest.mark.parametrize(("text", "as_text"), [(MICROS, False), (TEXT, True)])
@pytest.mark.parametrize("property", ["false", "true"])
def test_the_keys_that_are_stored_decide_and_no_property(
    tmp_path: Path, record_key: tuple[str, ...], text: str, as_text: bool, property: str
) -> None:
    key = text if len(record_key) == 1 else f"id:1,at:{text}"
    table = keyed(tmp_path, key, record_key=record_key, properties={AS_TEXT: property})
    keys = key_generator(table.open())
    assert keys.timestamps_as_text is as_text
    rows = pa.record_batch({"id": [1], "at": pa.array([MOMENT], AT)})
    assert record_keys(rows, keys).to_pylist() == [key]


def test_times_without_a_zone_are_numbers_or_refused(tmp_path: Path) -> None:
    local = MOMENT.replace(tzinfo=None)
    kind = pa.timestamp("us")
    assert key_generator(keyed(tmp_path / "n", MICROS, kind=kind, value=local).open())
    table = keyed(tmp_path / "t", TEXT, kind=kind, value=local)
    with pytest.raises(UnsupportedTableError, match="record keys that the table has are not"):
        key_generator(table.open())


def test_both_spellings_in_one_table_are_refused(tmp_path: Path) -> None:
    table = keyed(tmp_path, MICROS, TEXT)
    with pytest.raises(UnsupportedTableError, match="some as text") as refused:
        key_generator(table.open())
    assert refused.value.value is not None and TEXT in str(refused.value.value)
    assert key_generator(table.open(), replaces_all=True)


def test_text_of_another_zone_is_refused_and_taken_in_that_zone(tmp_path: Path) -> None:
    table = keyed(tmp_path, IN_TOKYO).open()
    with pytest.raises(UnsupportedTableError, match="another time zone"):
        key_generator(table)
    assert key_generator(table, zone="Asia/Tokyo").timestamps_as_text


def test_numbers_of_another_type_than_the_keys_are_refused(tmp_path: Path) -> None:
    assert key_generator(keyed(tmp_path / "a", "1.0", kind=pa.float64(), value=1.0).open())
    table = keyed(tmp_path / "b", "1", kind=pa.float64(), value=1.0)
    with pytest.raises(UnsupportedTableError, match="change of their type"):
        key_generator(table.open())


def test_keys_of_binary_columns_that_a_bulk_insert_made_are_refused(tmp_path: Path) -> None:
    assert key_generator(keyed(tmp_path / "a", "00ff", kind=pa.binary(), value=b"\0\xff").open())
    table = keyed(tmp_path / "b", "[B@987455b", kind=pa.binary(), value=b"\0\xff")
    with pytest.raises(UnsupportedTableError, match="bulk insert of binary columns"):
        key_generator(table.open())
    assert in_partitions(tmp_path / "c", "1/00", kind=pa.binary(), value=b"\0")
    with pytest.raises(UnsupportedTableError, match="bulk insert of binary columns"):
        in_partitions(tmp_path / "d", "1/[B@987455b", kind=pa.binary(), value=b"\0")


def test_stored_numbers_with_two_texts_say_nothing_about_the_others(tmp_path: Path) -> None:
    for number, text in ((8.41e21, "8.409999999999999E21"), (2.0**53, "9.007199254740992E15")):
        table = keyed(tmp_path / text, text, kind=pa.float64(), value=number)
        assert key_generator(table.open())


def test_keys_of_logs_count_where_there_is_no_base_file(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    rows = pa.table({"stored": [TEXT], "id": [1], "at": pa.array([MOMENT], AT)}, table.schema)
    table.append("1", {("", "f0"): rows}, log_format=LogFormat.AVRO)
    assert key_generator(table.open()).timestamps_as_text


def test_a_table_without_rows_is_spelled_by_its_properties(tmp_path: Path) -> None:
    assert not key_generator(keyed(tmp_path / "a").open()).timestamps_as_text
    table = keyed(tmp_path / "b", properties={AS_TEXT: "true"})
    assert key_generator(table.open()).timestamps_as_text


def in_partitions(
    folder: Path, *levels: str, kind: pa.DataType = AT, value: Any = MOMENT, **definition: Any
) -> KeyGenerator:
    schema = pa.schema([("id", pa.string()), ("n", pa.int64()), ("at", kind)])
    table = HandWrittenTable.create(folder, schema, partition_by=("n", "at"), **definition)
    rows = pa.table({"id": ["a"], "n": [1], "at": pa.array([value], kind)}, schema)
    files = {(level, f"f{number}"): rows for number, level in enumerate(levels)}
    table.commit("1", files)
    return key_generator(table.open())


@pytest.mark.parametrize(
    ("level", "settings"),
    [
        ("1/{}", {}),
        ("n=1/at={}", {"hive_style": True}),
        ("1/2024-01-02 03%3A04%3A05.0", {"url_encode": True}),
    ],
)
def test_partition_paths_are_told_by_their_look(
    tmp_path: Path, level: str, settings: dict[str, bool]
) -> None:
    for text in (MICROS, TEXT):
        folder = tmp_path / text[:4]
        keys = in_partitions(folder, level.format(text), **settings)
        expected = text == TEXT or "%3A" in level
        assert (keys.paths_have_times_as_text, keys.timestamps_as_text) == (expected, False)


@pytest.mark.parametrize("url_encode", [False, True])
def test_paths_of_sql_are_escaped_and_in_whole_seconds(tmp_path: Path, url_encode: bool) -> None:
    moment = MOMENT.replace(microsecond=999_999)
    keys = in_partitions(tmp_path, f"1/{OF_SQL}", value=moment, url_encode=url_encode)
    assert (keys.paths_are_of_sql, keys.paths_have_times_as_text) == (True, False)
    before = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC)
    rows = pa.record_batch({"n": [1, 2, 3], "at": pa.array([moment, before, None], AT)})
    paths = partition_paths(rows, keys).to_pylist()
    default = "__HIVE_DEFAULT_PARTITION__"
    assert paths == [f"1/{OF_SQL}", "2/1969-12-31 23%3A59%3A59", f"3/{default}"]


def test_paths_of_sql_of_times_without_a_zone_are_refused(tmp_path: Path) -> None:
    kind, value = pa.timestamp("us"), MOMENT.replace(tzinfo=None)
    with pytest.raises(UnsupportedTableError, match="are not what its columns"):
        in_partitions(tmp_path, f"1/{OF_SQL}", kind=kind, value=value)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((f"1/{MICROS}", f"1/{TEXT}"), "some partition paths have times"),
        ((f"1/{OF_SQL}", f"1/{TEXT}"), "two kinds of text"),
        (("1/2024-01-02 03:04:05",), "are not what its columns"),
        (("1/2024-01-02 12%3A04%3A05",), "another time zone"),
        ((f"1/{IN_TOKYO}",), "another time zone"),
    ],
)
def test_paths_of_other_spellings_are_refused(
    tmp_path: Path, levels: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=message):
        in_partitions(tmp_path, *levels)


def test_paths_of_numbers_show_another_type(tmp_path: Path) -> None:
    assert in_partitions(tmp_path / "a", "1/1.5", kind=pa.float64(), value=1.5)
    with pytest.raises(UnsupportedTableError, match="change of their type"):
        in_partitions(tmp_path / "b", "1/1", kind=pa.float64(), value=1.0)


def test_every_decade_is_told(tmp_path: Path) -> None:
    """The text of a time, made by Python, is that of the keys, from the year 1600 to 9999."""
    years = range(1600, 9999, 10)
    moments = [dt.datetime(year, 3, 4, 5, 6, 7, 890_000, tzinfo=dt.UTC) for year in years]
    texts = [f"{moment:%Y-%m-%d %H:%M:%S}.89" for moment in moments]
    schema = pa.schema([("stored", pa.string()), ("at", AT)])
    table = HandWrittenTable.create(tmp_path, schema, record_key=("at",))
    rows = pa.table({"stored": texts, "at": pa.array(moments, AT)}, schema)
    table.commit("1", {("", "f0"): rows.take(np.argsort(texts))})
    assert key_generator(table.open()).timestamps_as_text
