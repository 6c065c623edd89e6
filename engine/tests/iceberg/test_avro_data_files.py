"""Avro files of a table, written by fastavro: types, projections, maps, names, broken ones."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.iceberg.data.avro_source import AvroSource
from tideline.iceberg.data.name_mapping import parse_name_mapping
from tideline.iceberg.metadata.avro_type import avro_record
from tideline.iceberg.metadata.field_type import Decimal as DecimalType
from tideline.iceberg.metadata.field_type import (
    Fixed,
    ListType,
    MapType,
    NestedField,
    Primitive,
    StructType,
)
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation

FIELDS = (
    NestedField(1, "id", Primitive("long"), True),
    NestedField(2, "flag", Primitive("boolean")),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "other price", DecimalType(9, 2)),
    NestedField(5, "day", Primitive("date")),
    NestedField(6, "clock", Primitive("time")),
    NestedField(7, "wall", Primitive("timestamp")),
    NestedField(8, "moment", Primitive("timestamptz")),
    NestedField(9, "fine", Primitive("timestamp_ns")),
    NestedField(10, "code", Primitive("uuid")),
    NestedField(11, "block", Fixed(3)),
    NestedField(12, "raw", Primitive("binary")),
    NestedField(13, "list", ListType(14, Primitive("string"), False)),
    NestedField(15, "named", MapType(16, Primitive("string"), 17, Primitive("int"), False)),
    NestedField(18, "numbered", MapType(19, Primitive("int"), 20, Primitive("double"), False)),
    NestedField(
        21,
        "nested",
        StructType((NestedField(22, "a-b", Primitive("float")), NestedField(23, "c", Fixed(3)))),
    ),
)
MICROS = 1_234_567


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "flag": number % 2 == 0,
        "price": Decimal(number) / 4,
        "other_x20price": Decimal(-number) / 4,
        "day": number,
        "clock": MICROS + number,
        "wall": -MICROS * number,
        "moment": MICROS * number,
        "fine": number * 1001,
        "code": bytes([number % 256] * 16),
        "block": b"abc",
        "raw": b"\xff" * (number % 4),
        "list": ["x", None, str(number)],
        "named": [{"key": "k", "value": number}, {"key": "l", "value": None}],
        "numbered": [{"key": number, "value": number / 8}],
        "nested": {"a_x2Db": number / 2, "c": None if number % 3 else b"xyz"},
    }


def written(records: list[dict[str, Any]], schema: Any = None, codec: str = "deflate") -> bytes:
    body = io.BytesIO()
    made = schema or avro_record(StructType(FIELDS), "table")
    fastavro.writer(body, made, records, codec=codec, sync_interval=2_000)
    return body.getvalue()


def source(tmp_path: Path, body: bytes, mapping: Any = None) -> AvroSource:
    (tmp_path / "x.avro").write_bytes(body)
    files = FileIO(StoreLocation.of(str(tmp_path)), str(tmp_path))
    parsed = None if mapping is None else parse_name_mapping(mapping)
    return AvroSource(files, f"{tmp_path}/x.avro", parsed, {})


def rows(found: AvroSource, fields: Any = FIELDS) -> pa.Table:
    return pa.Table.from_batches([batch.rows for batch in found.batches(fields)])


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_every_type_comes_back(tmp_path: Path, codec: str) -> None:
    body = written([record(number) for number in range(300)], codec=codec)
    found = rows(source(tmp_path, body))
    assert found.num_rows == 300
    last = found.slice(299).to_pylist()[0]
    assert last == {
        "id": 299,
        "flag": False,
        "price": Decimal("74.75"),
        "other price": Decimal("-74.75"),
        "day": dt.date(1970, 1, 1) + dt.timedelta(days=299),
        "clock": (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=MICROS + 299)).time(),
        "wall": dt.datetime(1970, 1, 1) - dt.timedelta(microseconds=MICROS * 299),
        "moment": dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=MICROS * 299),
        "fine": last["fine"],
        "code": bytes([43] * 16),
        "block": b"abc",
        "raw": b"\xff" * 3,
        "list": ["x", None, "299"],
        "named": [("k", 299), ("l", None)],
        "numbered": [(299, 37.375)],
        "nested": {"a-b": 149.5, "c": None},
    }
    assert found["fine"].cast(pa.int64())[299].as_py() == 299 * 1001


def test_few_columns_are_decoded_and_positions_count(tmp_path: Path) -> None:
    found = source(tmp_path, written([record(number) for number in range(20_000)]))
    batches = list(found.batches((FIELDS[3], FIELDS[0])))
    assert len(batches) > 1
    assert [batch.first for batch in batches][1] == batches[0].rows.num_rows
    table = pa.Table.from_batches([batch.rows for batch in batches])
    assert table.column_names == ["other price", "id"]
    assert table["id"].to_pylist() == list(range(20_000))
    assert table["other price"][8].as_py() == Decimal("-2.00")
    missing = NestedField(99, "late", Primitive("int"))
    assert rows(found, (missing,)).num_rows == 20_000


def test_without_ids_names_are_mapped(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "old",
        "fields": [
            {"name": "n", "type": "int"},
            {"name": "m", "type": {"type": "map", "values": ["null", "long"]}},
        ],
    }
    body = written([{"n": 1, "m": {"a": 5}}, {"n": 2, "m": {}}], schema)
    wanted = (
        FIELDS[0],
        NestedField(15, "named", MapType(16, Primitive("string"), 17, Primitive("long"), False)),
    )
    with pytest.raises(UnsupportedTableError, match="name-mapping"):
        rows(source(tmp_path, body), wanted)
    mapping = [
        {"field-id": 1, "names": ["n"]},
        {
            "field-id": 15,
            "names": ["m"],
            "fields": [
                {"field-id": 16, "names": ["key"]},
                {"field-id": 17, "names": ["value"]},
            ],
        },
    ]
    assert rows(source(tmp_path, body, mapping), wanted).to_pylist() == [
        {"id": 1, "named": [("a", 5)]},
        {"id": 2, "named": []},
    ]


@pytest.mark.parametrize("cut", [3, 40, 2_000, -1, -17])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, cut: int) -> None:
    body = written([record(number) for number in range(300)])[:cut]
    with pytest.raises(CorruptTableError, match=r"x\.avro"):
        rows(source(tmp_path, body))


def test_a_union_of_several_types_is_refused(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "u",
        "fields": [{"name": "id", "type": ["int", "string"], "field-id": 1}],
    }
    with pytest.raises(UnsupportedTableError, match="union"):
        rows(source(tmp_path, written([{"id": 1}], schema)), FIELDS[:1])
