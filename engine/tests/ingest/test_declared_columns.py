"""Column types as people write them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tideline.ingest.arrow_schema import arrow_schema, arrow_type
from tideline.ingest.column_type import PRIMITIVE_TYPES, Column, ColumnType


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        *[(name, name) for name in PRIMITIVE_TYPES],
        ("BIGINT", "long"),
        ("Integer", "int"),
        ("decimal( 10 , 2 )", "decimal(10,2)"),
        ("array< array<int> >", "array<array<int>>"),
        ("map<string, struct<a:int, b: array<date>>>", "map<string,struct<a:int,b:array<date>>>"),
    ],
)
def test_a_type_reads_and_prints_itself(text: str, canonical: str) -> None:
    kind = ColumnType.parse(text)
    assert str(kind) == canonical
    assert ColumnType.parse(canonical) == kind


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("text", "'text' is not a column type"),
        ("smallint", "use int"),
        ("decimal", "ends too early"),
        ("decimal(39,2)", "1 <= p <= 38"),
        ("decimal(5,6)", "s <= p"),
        ("array<int", "ends too early"),
        ("array<int>>", "unexpected '>'"),
        ("map<int,int>", "keys of a map are strings"),
        ("struct<a:int,a:int>", "unique member"),
        ("struct<a int>", "expected ':'"),
        ("int not null", "unexpected 'not'"),
        ("array<" * 12 + "int" + ">" * 12, "nest at most"),
        ("", "ends too early"),
    ],
)
def test_what_is_no_type_is_refused_saying_why(text: str, why: str) -> None:
    with pytest.raises(ValueError) as raised:
        ColumnType.parse(text)
    assert why in str(raised.value)


def test_declared_columns_become_arrow_types() -> None:
    columns = [
        Column("id", ColumnType.parse("long"), nullable=False),
        Column("at", ColumnType.parse("timestamp")),
        Column("fares", ColumnType.parse("map<string,decimal(10,2)>")),
        Column("legs", ColumnType.parse("array<struct<to:string,km:int>>")),
    ]
    assert arrow_schema(columns) == pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("at", pa.timestamp("us", tz="UTC")),
            pa.field("fares", pa.map_(pa.string(), pa.decimal128(10, 2))),
            pa.field("legs", pa.list_(pa.struct({"to": pa.string(), "km": pa.int32()}))),
        ]
    )
    assert arrow_type(ColumnType.parse("timestamp_ntz")) == pa.timestamp("us")
