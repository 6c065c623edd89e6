"""JSON values as rows, and what is wrong with those that are none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.ingest.sources.kafka import json_rows
from tideline.ingest.sources.kafka.json_rows import read_json_values

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def test_columns_are_those_of_the_schema() -> None:
    table, bad = read_json_values([b'{"id": 1, "v": "a", "more": [1]}', b'{"v": "b"}'], SCHEMA)
    assert table.to_pylist() == [{"id": 1, "v": "a"}, {"id": None, "v": "b"}]
    assert table.schema == SCHEMA
    assert bad == {}


def test_many_values_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_rows, "_AT_ONCE", 7)
    values = [b'{"id": %d}' % number for number in range(50)]
    values[6], values[7], values[49] = b"no", b'\n\t{"id":\r\n 7}', b""
    table, bad = read_json_values(values, SCHEMA)
    assert table.column("id").to_pylist() == [n for n in range(50) if n not in (6, 49)]
    assert sorted(bad) == [6, 49]


@pytest.mark.parametrize(
    "text",
    ["5", "null", '"text"', "[1]", "", " ", "{", '{"id": "one"}', '{"id": 1.5}',
     '{"id": 1} {"id": 2}', '{"id": 1}\n{"id": 2}',
     "{nonsense", '{"id": 1', '{"id": 99999999999999999999}', "\x00"],
)  # fmt: skip
def test_a_value_that_is_none_is_found_among_others(text: str) -> None:
    good = [json.dumps({"id": number, "v": "x"}).encode() for number in range(20)]
    values = [*good[:7], text.encode(), *good[7:], text.encode()]
    table, bad = read_json_values(values, SCHEMA)
    assert table.column("id").to_pylist() == list(range(20))
    assert sorted(bad) == [7, 21]
    assert all(bad.values())


def test_a_reason_names_the_column() -> None:
    _, bad = read_json_values([b'{"id": "one"}'], SCHEMA)
    assert bad == {0: "column id: a string where a number is expected"}


def test_bytes_that_are_no_text_are_no_value() -> None:
    table, bad = read_json_values(
        [b'{"id": 1, "v": "\xff"}', b'{"id": 2, "v": "\xc3\xa9"}'], SCHEMA
    )
    assert table.to_pylist() == [{"id": 2, "v": "\u00e9"}]
    assert list(bad) == [0]


def test_a_value_in_many_lines_is_one() -> None:
    pretty = json.dumps({"id": 1, "v": "line\nbreak"}, indent=2).replace("\n", "\r\n").encode()
    table, bad = read_json_values([pretty, b'{"id": 2, "v": "b"}'], SCHEMA)
    assert table.to_pylist() == [{"id": 1, "v": "line\nbreak"}, {"id": 2, "v": "b"}]
    assert not bad


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_numbers_in_many_lines_have_all_their_digits(end: str) -> None:
    schema = pa.schema({"money": pa.decimal128(38, 19), "n": pa.int64()})
    digits = "1234567890123456789.0123456789012345678"
    value = f'{{{end} "money": {digits},{end} "n": 9007199254740993{end}}}'
    table, bad = read_json_values([value.encode()], schema)
    assert not bad
    assert table.to_pylist() == [{"money": Decimal(digits), "n": 9007199254740993}]


@pytest.mark.parametrize("value", [b'{"id": 1,\n"id": 2}', b'{"id": 1, "v": "a\nb"}'])
def test_what_is_no_value_in_one_line_is_none_in_many(value: bytes) -> None:
    table, bad = read_json_values([b'{"id": 3}', value, b'{"id": 4}'], SCHEMA)
    assert table.column("id").to_pylist() == [3, 4]
    assert list(bad) == [1]


def test_types() -> None:
    schema = pa.schema(
        [
            ("flag", pa.bool_()), ("small", pa.int32()), ("d", pa.float64()),
            ("money", pa.decimal128(10, 2)), ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us")),
            ("items", pa.list_(pa.int64())), ("in", pa.struct([("a", pa.string())])),
        ]
    )  # fmt: skip
    value = {
        "flag": True, "small": 7, "d": 1.5, "money": "12.34", "day": "2026-11-28",
        "at": "2026-11-28T10:00:00Z", "local": "2026-11-28 10:00:00.5", "items": [1, 2],
        "in": {"a": "x"},
    }  # fmt: skip
    table, bad = read_json_values([json.dumps(value).encode()], schema)
    assert bad == {}
    assert table.to_pylist() == [
        {
            "flag": True, "small": 7, "d": 1.5, "money": Decimal("12.34"),
            "day": date(2026, 11, 28), "at": datetime(2026, 11, 28, 10, tzinfo=UTC),
            "local": datetime(2026, 11, 28, 10, 0, 0, 500_000),
            "items": [1, 2], "in": {"a": "x"},
        }
    ]  # fmt: skip


@given(st.lists(st.one_of(st.integers(-9, 9), st.none()), max_size=60))
def test_every_bad_value_is_found_and_no_other(numbers: list[int | None]) -> None:
    values = [b"{" if number is None else b'{"id": %d}' % number for number in numbers]
    table, bad = read_json_values(values, SCHEMA)
    assert table.column("id").to_pylist() == [number for number in numbers if number is not None]
    assert set(bad) == {place for place, number in enumerate(numbers) if number is None}
