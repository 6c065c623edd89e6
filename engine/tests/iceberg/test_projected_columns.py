"""Columns of older files as the table's schema of today has them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.iceberg.data.arrow_schema import arrow_schema
from tideline.iceberg.data.name_mapping import parse_name_mapping
from tideline.iceberg.data.parquet_rows import ByteRange, ParquetSource
from tideline.iceberg.metadata.field_type import NestedField, parse_struct, parse_type
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.location import StoreLocation

DAY = datetime.date(2024, 2, 29)


def field(number: int, name: str, kind: Any, **options: Any) -> NestedField:
    return NestedField(number, name, parse_type(kind), **options)


def stored(number: int, name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def source(folder: Path, table: pa.Table, **options: Any) -> ParquetSource:
    arguments = {"row_group_size": 1000, **options}
    mapping = arguments.pop("mapping", None)
    constants = arguments.pop("constants", {})
    path = folder / "file.parquet"
    pq.write_table(table, path, **arguments)
    io = FileIO(StoreLocation.of(folder), str(folder))
    return ParquetSource(io, str(path), path.stat().st_size, mapping, constants)


def read(found: ParquetSource, wanted: Sequence[NestedField]) -> list[dict[str, Any]]:
    batches = [batch.rows for batch in found.batches(wanted)]
    assert all(batch.schema.equals(arrow_schema(wanted), check_metadata=True) for batch in batches)
    rows: list[dict[str, Any]] = pa.Table.from_batches(
        batches, schema=arrow_schema(wanted)
    ).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("values", "wanted", "found"),
    [
        (pa.array([1, None], pa.int32()), "long", [1, None]),
        (pa.array([1.5, None], pa.float32()), "double", [1.5, None]),
        (
            pa.array([decimal.Decimal("1.20"), None], pa.decimal128(5, 2)),
            "decimal(30, 2)",
            [decimal.Decimal("1.20"), None],
        ),
        (pa.array([DAY, None]), "timestamp", [datetime.datetime(2024, 2, 29), None]),
        (pa.array([5, None], pa.timestamp("ms")), "timestamp",
         [datetime.datetime(1970, 1, 1, 0, 0, 0, 5000), None]),
        (pa.array([7, None], pa.timestamp("us")), "timestamptz",
         [datetime.datetime(1970, 1, 1, 0, 0, 0, 7, datetime.UTC), None]),
        (pa.array([b"x", None]), "string", ["x", None]),
        (pa.array(["x", None], pa.large_string()), "string", ["x", None]),
        (pa.array([b"0123456789abcdef", None], pa.binary(16)), "uuid", [b"0123456789abcdef", None]),
        (pa.array(["x", None]).dictionary_encode(), "string", ["x", None]),
    ],
)  # fmt: skip
def test_stored_types_are_promoted(
    tmp_path: Path, values: pa.Array, wanted: str, found: list[Any]
) -> None:
    table = pa.table([values], schema=pa.schema([stored(1, "old", values.type)]))
    rows = read(source(tmp_path, table), [field(1, "new", wanted)])
    assert [row["new"] for row in rows] == found


@pytest.mark.parametrize(
    ("values", "wanted", "options"),
    [
        (pa.array(range(3000), pa.int32()), "long", {"column_encoding": "DELTA_BINARY_PACKED"}),
        (pa.array(range(3000), pa.int64()), "long", {"column_encoding": "BYTE_STREAM_SPLIT"}),
        (pa.array([f"a{n}" for n in range(3000)]), "string",
         {"column_encoding": "DELTA_BYTE_ARRAY"}),
        (pa.array([b"x" * (n % 7) for n in range(3000)]), "binary",
         {"column_encoding": "DELTA_LENGTH_BYTE_ARRAY"}),
        (pa.array([n % 3 == 0 for n in range(3000)]), "boolean", {"column_encoding": "RLE"}),
        (pa.array([n / 3 for n in range(3000)]), "double", {"data_page_version": "2.0"}),
        (pa.array([decimal.Decimal(n).scaleb(-2) for n in range(-9, 9)], pa.decimal128(9, 2)),
         "decimal(9, 2)", {"store_decimal_as_integer": True}),
        (pa.array([decimal.Decimal(n).scaleb(-2) for n in range(-9, 9)], pa.decimal128(18, 2)),
         "decimal(18, 2)", {"store_decimal_as_integer": True}),
        (pa.array([decimal.Decimal(n).scaleb(-2) for n in range(-9, 9)], pa.decimal128(38, 2)),
         "decimal(38, 2)", {}),
        (pa.array([-1, 0, 10**15], pa.timestamp("us")), "timestamp",
         {"use_deprecated_int96_timestamps": True}),
        (pa.array([-1, 0, 10**18 + 1], pa.timestamp("ns")), "timestamp_ns", {}),
        (pa.array([0, 86_399_999_999], pa.time64("us")), "time", {}),
    ],
)  # fmt: skip
def test_every_encoding_of_parquet_is_read(
    tmp_path: Path, values: pa.Array, wanted: str, options: dict[str, Any]
) -> None:
    if "column_encoding" in options:
        options = {**options, "use_dictionary": False}
    table = pa.table([values], schema=pa.schema([stored(1, "c", values.type)]))
    found = [batch.rows["c"] for batch in source(tmp_path, table, **options).batches(
        [field(1, "c", wanted)])]  # fmt: skip
    assert pa.chunked_array(found).cast(values.type).equals(pa.chunked_array([values]))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1], pa.int64()), "int"),
        (pa.array([1.5]), "float"),
        (pa.array([1]), "string"),
        (pa.array(["1"]), "long"),
        (pa.array([decimal.Decimal("1.2")]), "decimal(9, 2)"),
        (pa.array([[1]]), "long"),
        (pa.array([b"12345"], pa.binary(5)), "fixed[4]"),
    ],
)
def test_what_no_evolution_allows_is_refused_by_column(
    tmp_path: Path, values: pa.Array, wanted: str
) -> None:
    table = pa.table([values], schema=pa.schema([stored(1, "old", values.type)]))
    with pytest.raises(UnsupportedTableError, match=r"'new'.*file\.parquet"):
        read(source(tmp_path, table), [field(1, "new", wanted)])


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("int", 5, 5),
        ("boolean", False, False),
        ("double", 1.5, 1.5),
        ("string", "a", "a"),
        ("decimal(9, 2)", "14.20", decimal.Decimal("14.20")),
        ("date", "2024-02-29", DAY),
        ("time", "22:31:08.123456", datetime.time(22, 31, 8, 123456)),
        ("timestamp", "2017-11-16T22:31:08.5", datetime.datetime(2017, 11, 16, 22, 31, 8, 500000)),
        ("timestamptz", "2017-11-16T22:31:08+00:00",
         datetime.datetime(2017, 11, 16, 22, 31, 8, tzinfo=datetime.UTC)),
        ("uuid", "00010203-0405-0607-0809-0a0b0c0d0e0f", bytes(range(16))),
        ("binary", "0102ff", b"\x01\x02\xff"),
        ("fixed[2]", "0102", b"\x01\x02"),
    ],
)  # fmt: skip
def test_a_column_a_file_lacks_has_its_initial_default(
    tmp_path: Path, kind: str, default: Any, value: Any
) -> None:
    table = pa.table([pa.array([1, 2])], schema=pa.schema([stored(1, "id", pa.int64())]))
    wanted = [field(9, "added", kind, initial_default=default, required=True)]
    assert read(source(tmp_path, table), wanted) == [{"added": value}] * 2


def test_a_partition_value_stands_in_for_a_column_and_null_for_any_other(tmp_path: Path) -> None:
    table = pa.table([pa.array([1])], schema=pa.schema([stored(1, "id", pa.int64())]))
    found = source(tmp_path, table, constants={2: "eu", 1: 77})
    wanted = [field(2, "region", "string"), field(3, "other", "long"), field(1, "id", "long")]
    assert read(found, wanted) == [{"region": "eu", "other": None, "id": 1}]


def test_a_required_column_that_is_missing_is_an_error(tmp_path: Path) -> None:
    table = pa.table([pa.array([1])], schema=pa.schema([stored(1, "id", pa.int64())]))
    with pytest.raises(CorruptTableError, match="'gone' is missing"):
        read(source(tmp_path, table), [field(3, "gone", "long", required=True)])


NESTED = parse_struct(
    {
        "fields": [
            {"id": 1, "name": "s", "required": False, "type": {
                "type": "struct", "fields": [
                    {"id": 3, "name": "renamed", "required": False, "type": "string"},
                    {"id": 9, "name": "added", "required": False, "type": "int"},
                    {"id": 2, "name": "wider", "required": False, "type": "long"},
                ]}},
            {"id": 4, "name": "l", "required": False, "type": {
                "type": "list", "element-id": 5, "element-required": False, "element": {
                    "type": "struct", "fields": [
                        {"id": 7, "name": "y", "required": False, "type": "double"}]}}},
            {"id": 10, "name": "m", "required": False, "type": {
                "type": "map", "key-id": 11, "key": "string", "value-id": 12,
                "value-required": False, "value": "long"}},
        ]
    }
).fields  # fmt: skip


def nested_table() -> pa.Table:
    kind = pa.struct([stored(2, "narrow", pa.int32()), stored(3, "old", pa.string())])
    item = pa.struct([stored(6, "x", pa.int32()), stored(7, "y", pa.float32())])
    entries = pa.map_(
        pa.field("key", pa.string(), False, {"PARQUET:field_id": "11"}),
        stored(12, "value", pa.int32()),
    )
    rows = [
        {"s": {"narrow": 1, "old": "a"}, "l": [{"x": 1, "y": 1.5}, None], "m": [("k", 1)]},
        {"s": None, "l": None, "m": None},
        {"s": {"narrow": None, "old": None}, "l": [], "m": []},
        {"s": {"narrow": 4, "old": "d"}, "l": [{"x": None, "y": None}], "m": [("z", None)]},
    ] * 400
    schema = pa.schema(
        [stored(1, "s", kind), stored(4, "l", pa.list_(stored(5, "element", item))),
         stored(10, "m", entries)]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


def test_structs_lists_and_maps_evolve_within(tmp_path: Path) -> None:
    wanted = [
        {
            "s": {"renamed": "a", "added": None, "wider": 1},
            "l": [{"y": 1.5}, None],
            "m": [("k", 1)],
        },
        {"s": None, "l": None, "m": None},
        {"s": {"renamed": None, "added": None, "wider": None}, "l": [], "m": []},
        {"s": {"renamed": "d", "added": None, "wider": 4}, "l": [{"y": None}], "m": [("z", None)]},
    ]
    found = read(source(tmp_path, nested_table(), row_group_size=700), NESTED)
    for number, row in enumerate(found):
        assert row == wanted[number % 4], number
    assert len(found) == 1600


def test_files_without_ids_are_read_by_the_names_the_mapping_knows(tmp_path: Path) -> None:
    table = pa.table({"ID": [1], "s": [{"a": "x"}], "l": [[5]], "unmapped": [0]})
    mapping = parse_name_mapping(
        [
            {"field-id": 1, "names": ["id", "ID"]},
            {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["a"]}]},
            {"field-id": 4, "names": ["l"], "fields": [{"field-id": 5, "names": ["element"]}]},
        ]
    )
    struct = {"type": "struct",
              "fields": [{"id": 3, "name": "b", "required": False, "type": "string"}]}  # fmt: skip
    list_ = {"type": "list", "element-id": 5, "element-required": False, "element": "long"}
    wanted = [field(1, "id", "long"), field(2, "s", struct), field(4, "l", list_)]
    rows = read(source(tmp_path, table, mapping=mapping), wanted)
    assert rows == [{"id": 1, "s": {"b": "x"}, "l": [5]}]
    with pytest.raises(UnsupportedTableError, match=r"name-mapping.*file\.parquet"):
        read(source(tmp_path, table), wanted)


def test_row_groups_that_begin_in_a_range_are_read_with_their_positions(tmp_path: Path) -> None:
    table = pa.table([pa.array(range(2500))], schema=pa.schema([stored(1, "id", pa.int64())]))
    found = source(tmp_path, table)
    metadata = pq.ParquetFile(tmp_path / "file.parquet").metadata
    second = metadata.row_group(1).column(0).dictionary_page_offset
    halves = [ByteRange(0, second), ByteRange(second, found.size_bytes)]
    firsts = []
    for part, count in zip(halves, (1000, 1500), strict=True):
        batches = list(found.batches([field(1, "id", "long")], part))
        assert sum(batch.rows.num_rows for batch in batches) == count
        assert all(batch.rows["id"][0].as_py() == batch.first for batch in batches)
        firsts.append(batches[0].first)
    assert firsts == [0, 1000]


@pytest.mark.parametrize("place", ["page", "footer", "end"])
def test_a_broken_file_is_named(tmp_path: Path, place: str) -> None:
    table = pa.table([pa.array(range(2500))], schema=pa.schema([stored(1, "id", pa.int64())]))
    found = source(tmp_path, table, compression="zstd")
    path = tmp_path / "file.parquet"
    body = bytearray(path.read_bytes())
    match place:
        case "page":
            body[4:200] = b"\xff" * 196
        case "footer":
            body[-60:-8] = b"\xff" * 52
        case "end":
            del body[-4:]
    path.write_bytes(body)
    with pytest.raises(CorruptTableError, match=r"broken.*file\.parquet"):
        read(found, [field(1, "id", "long")])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    table = pa.table([pa.array([1])], schema=pa.schema([stored(1, "id", pa.int64())]))
    found = source(tmp_path, table)
    (tmp_path / "file.parquet").unlink()
    with pytest.raises(ObjectNotFoundError, match=r"file\.parquet"):
        read(found, [field(1, "id", "long")])
