"""Arrow schemas as Avro, and the Avro of Hudi, Spark and others as Arrow."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import CorruptTableError, InvalidDataError, UnsupportedTableError
from tideline.hudi.table.schema import (
    META_COLUMNS,
    arrow_to_avro,
    avro_to_arrow,
    record_name,
    stored_schema,
    with_meta_fields,
    without_meta_fields,
)

SCALARS = [
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.binary(16),
    pa.date32(),
    pa.time32("ms"),
    pa.time64("us"),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("ms", tz="UTC"),
    pa.timestamp("us"),
    pa.timestamp("ms"),
    pa.decimal128(10, 2),
    pa.decimal128(38, 18),
    pa.decimal128(1, 0),
]
NAMES = st.sampled_from(["a", "b", "c_1", "_d", "größe", "fixed", "element", "value"])


def columns_of(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    column = st.builds(pa.field, NAMES, types, st.booleans())
    return st.lists(column, min_size=1, max_size=4, unique_by=lambda item: item.name)


TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.builds(
            lambda item, null: pa.list_(pa.field("element", item, null)), inner, st.booleans()
        ),
        st.builds(
            lambda item, null: pa.map_(pa.string(), pa.field("value", item, null)),
            inner,
            st.booleans(),
        ),
        st.builds(pa.struct, columns_of(inner)),
    ),
    max_leaves=8,
)


def avro(schema: pa.Schema) -> dict[str, Any]:
    name, namespace = record_name("orders")
    return arrow_to_avro(schema, name=name, namespace=namespace)


def read_field(data_type: Any) -> pa.Field:
    """The Arrow field of an Avro field of this type."""
    record = {"type": "record", "name": "r", "fields": [{"name": "c", "type": data_type}]}
    return avro_to_arrow(json.dumps(record)).field("c")


@given(columns_of(TYPES))
def test_a_schema_survives_the_way_to_avro_and_back(columns: list[pa.Field]) -> None:
    schema = pa.schema(columns)
    assert avro_to_arrow(json.dumps(avro(schema))).equals(schema)


@given(columns_of(TYPES))
def test_the_names_in_an_avro_schema_are_unique(columns: list[pa.Field]) -> None:
    named: list[str] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") in ("record", "fixed"):
                named.append(f"{node['namespace']}.{node['name']}")
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(avro(pa.schema(columns)))
    assert len(named) == len(set(named))


def test_records_and_fields_are_named_as_spark_and_hudi_do() -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("price", pa.decimal128(10, 2)),
            pa.field("home", pa.struct([pa.field("at", pa.timestamp("us", tz="UTC"))])),
            pa.field("items", pa.list_(pa.struct([pa.field("n", pa.int32())]))),
        ]
    )
    assert avro(schema) == {
        "type": "record",
        "name": "orders_record",
        "namespace": "hoodie.orders",
        "fields": [
            {"name": "id", "type": "string"},
            {
                "name": "price",
                "type": [
                    "null",
                    {
                        "type": "fixed",
                        "name": "fixed",
                        "namespace": "hoodie.orders.orders_record.price",
                        "size": 5,
                        "logicalType": "decimal",
                        "precision": 10,
                        "scale": 2,
                    },
                ],
                "default": None,
            },
            {
                "name": "home",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "home",
                        "namespace": "hoodie.orders.orders_record",
                        "fields": [
                            {
                                "name": "at",
                                "type": [
                                    "null",
                                    {"type": "long", "logicalType": "timestamp-micros"},
                                ],
                                "default": None,
                            }
                        ],
                    },
                ],
                "default": None,
            },
            {
                "name": "items",
                "type": [
                    "null",
                    {
                        "type": "array",
                        "items": [
                            "null",
                            {
                                "type": "record",
                                "name": "items",
                                "namespace": "hoodie.orders.orders_record",
                                "fields": [{"name": "n", "type": ["null", "int"], "default": None}],
                            },
                        ],
                    },
                ],
                "default": None,
            },
        ],
    }
    fastavro.parse_schema(avro(schema))


@pytest.mark.parametrize(
    ("precision", "size"), [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (19, 9), (38, 16)]
)
def test_decimals_take_as_many_bytes_as_spark_gives_them(precision: int, size: int) -> None:
    schema = avro(pa.schema([pa.field("d", pa.decimal128(precision, 0), nullable=False)]))
    assert schema["fields"][0]["type"]["size"] == size


def test_every_kind_of_timestamp_is_stored_in_microseconds() -> None:
    schema = pa.schema(
        [
            ("ns", pa.timestamp("ns", tz="Europe/Berlin")),
            ("ms", pa.timestamp("ms", tz="+02:00")),
            ("s", pa.timestamp("s")),
        ]
    )
    assert stored_schema(schema) == pa.schema(
        [
            ("ns", pa.timestamp("us", tz="UTC")),
            ("ms", pa.timestamp("us", tz="UTC")),
            ("s", pa.timestamp("us")),
        ]
    )


@pytest.mark.parametrize(
    ("given_type", "stored"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_list(pa.int8()), pa.list_(pa.field("element", pa.int32()))),
        (pa.list_(pa.int64(), 3), pa.list_(pa.field("element", pa.int64()))),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_other_arrow_types_are_stored_as_the_nearest(
    given_type: pa.DataType, stored: pa.DataType
) -> None:
    assert stored_schema(pa.schema([("c", given_type)])) == pa.schema([("c", stored)])


@pytest.mark.parametrize(
    "data_type",
    [
        pa.uint64(),
        pa.float16(),
        pa.duration("us"),
        pa.decimal256(50, 2),
        pa.map_(pa.int32(), pa.string()),
        pa.struct([("x", pa.uint64())]),
    ],
)
def test_a_type_that_no_table_can_hold_is_refused_naming_the_column(
    data_type: pa.DataType,
) -> None:
    with pytest.raises(InvalidDataError, match="column c"):
        avro(pa.schema([("c", data_type)]))


@pytest.mark.parametrize("name", ["order id", "1st", "a.b", "", "a-b"])
def test_a_column_name_avro_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(InvalidDataError, match="column names"):
        avro(pa.schema([(name, pa.int32())]))


@pytest.mark.parametrize(
    ("union", "nullable"),
    [
        (["null", "string"], True),
        (["string", "null"], True),
        (["string"], False),
        ("string", False),
    ],
)
def test_nullable_unions_come_in_either_order(union: Any, nullable: bool) -> None:
    assert read_field(union) == pa.field("c", pa.string(), nullable)


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "fixed", "name": "f", "size": 16}, pa.binary(16)),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            pa.decimal128(10, 2),
        ),
        (
            {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 9},
            pa.decimal128(9, 0),
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "int", "logicalType": "something-new"}, pa.int32()),
        (
            {"type": {"type": "array", "items": "int"}},
            pa.list_(pa.field("element", pa.int32(), False)),
        ),
        ({"type": "map", "values": ["null", "long"]}, pa.map_(pa.string(), pa.int64())),
        ("null", pa.null()),
    ],
)
def test_reads_what_other_writers_spell(data_type: Any, expected: pa.DataType) -> None:
    assert read_field(data_type).type == expected


def test_named_types_are_found_again_by_short_and_full_name() -> None:
    inner = {
        "type": "record",
        "name": "Point",
        "namespace": "geo",
        "fields": [{"name": "x", "type": "int"}],
    }
    schema = {
        "type": "record",
        "name": "r",
        "namespace": "geo",
        "fields": [
            {"name": "a", "type": inner},
            {"name": "b", "type": ["null", "Point"]},
            {"name": "c", "type": {"type": "array", "items": "geo.Point"}},
        ],
    }
    point = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    assert avro_to_arrow(schema).field("b") == pa.field("b", point)
    assert avro_to_arrow(schema).field("c").type.value_type == point


@pytest.mark.parametrize(
    ("data_type", "error"),
    [
        (["null", "int", "string"], UnsupportedTableError),
        (["null", "r"], UnsupportedTableError),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, UnsupportedTableError),
        ({"type": "bytes", "logicalType": "decimal"}, CorruptTableError),
        ("Unknown", CorruptTableError),
        (17, CorruptTableError),
        ({"type": "fixed", "name": "f"}, CorruptTableError),
        ({"type": "record", "name": "x"}, CorruptTableError),
    ],
)
def test_what_has_no_arrow_form_is_refused(data_type: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_field(data_type)


@pytest.mark.parametrize("text", ["", "{", "[]", '"string"', '{"type":"array","items":"int"}'])
def test_what_is_no_record_schema_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptTableError):
        avro_to_arrow(text)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("orders", ("orders_record", "hoodie.orders")),
        ("hudi-v6 table", ("hudi__v6__table_record", "hoodie.hudi__v6__table")),
        ("1st", ("__st_record", "hoodie.__st")),
    ],
)
def test_table_names_are_made_fit_for_avro(table: str, expected: tuple[str, str]) -> None:
    assert record_name(table) == expected


def test_meta_columns_are_added_once_and_removed() -> None:
    user = pa.schema([("id", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
    full = with_meta_fields(user)
    assert tuple(full.names) == (*META_COLUMNS, "id", "_hoodie_is_deleted")
    assert with_meta_fields(full) == full
    assert without_meta_fields(full) == user
    assert without_meta_fields(full.append(pa.field("_hoodie_operation", pa.string()))) == user
