"""Keys of records without a value delete the row that they mean, and no other."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.decoded import Decoded
from tideline.ingest.sources.kafka.schema_registry import Registry
from tideline.ingest.sources.kafka.values import ValueReader
from tideline.ingest.sources.source import Shape

BESIDE = pa.schema([])
DECIMAL = pa.decimal128(20, 2)


def named(key: bytes, kind: pa.DataType) -> Decoded:
    declared = DeclaredKafka(brokers="localhost", topics=("t",), schema=())
    shape = Shape(pa.schema({"id": kind, "v": pa.string()}), record_key=("id",))
    return ValueReader(declared, shape, Registry("")).keys([key], BESIDE)


@pytest.mark.parametrize(
    ("key", "kind", "value"),
    [
        (b"12", pa.int64(), 12),
        (b" 12\n", pa.int64(), 12),
        (b"12", pa.string(), "12"),
        (b'"12"', pa.string(), "12"),
        (b"007", pa.string(), "007"),
        (b"true", pa.string(), "true"),
        (b"a b", pa.string(), "a b"),
        (b"\xc3\xbc", pa.string(), "\u00fc"),
        (b"123456789012345678.91", DECIMAL, Decimal("123456789012345678.91")),
        (b'{"id": 123456789012345678.91}', DECIMAL, Decimal("123456789012345678.91")),
    ],
)
def test_a_key_is_the_value_of_the_only_column(key: bytes, kind: pa.DataType, value: Any) -> None:
    found = named(key, kind)
    assert found.rows.column("id").to_pylist() == [value]
    assert not found.faults


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        # What Kafka's serializers write for 49, and 1 in other encodings of text.
        (b"\0\0\x001", pa.int64()),
        (b"\0\0\0\0\0\0\x001", pa.int64()),
        (b"1\0", pa.int64()),
        (b"\xff\xfe1\0", pa.int64()),
        (b"\xff", pa.string()),
        (b"01", pa.int64()),
        (b"1.5", pa.int64()),
        (b"", pa.int64()),
        (b"1.234", DECIMAL),
    ],
)
def test_what_is_no_value_of_the_column_names_no_row(key: bytes, kind: pa.DataType) -> None:
    found = named(key, kind)
    assert found.rows.num_rows == 0
    assert set(found.faults) == {0}
