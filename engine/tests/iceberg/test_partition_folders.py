"""Folders of partitions, where years are beyond what Python knows as well."""

from __future__ import annotations

import pytest

from tideline.iceberg.metadata.field_type import NestedField, Primitive
from tideline.iceberg.metadata.partition_path import partition_path
from tideline.iceberg.metadata.partition_spec import PartitionField, PartitionSpec, Transform
from tideline.iceberg.metadata.schema import Schema

DAY_MICROS = 86_400_000_000


@pytest.mark.parametrize(
    ("kind", "transform", "value", "text"),
    [
        ("date", "day", 20_778, "2026-11-21"),
        ("date", "day", 2_932_897, "10000-01-01"),
        ("date", "day", -719_163, "0000-12-31"),
        ("date", "day", -719_529, "-001-12-31"),
        ("date", "identity", 2_932_897, "10000-01-01"),
        ("date", "identity", -719_529, "-001-12-31"),
        ("date", "month", 8030 * 12, "10000-01"),
        ("date", "year", 8030, "10000"),
        ("date", "year", -1971, "-001"),
        ("timestamp", "hour", 2_932_897 * 24 + 5, "10000-01-01-05"),
        ("timestamp", "identity", 2_932_897 * DAY_MICROS, "%2B10000-01-01T00%3A00%3A00"),
        ("timestamptz", "identity", -719_529 * DAY_MICROS, "-0001-12-31T00%3A00%3A00%2B00%3A00"),
        ("timestamp_ns", "identity", 20_778 * DAY_MICROS * 1000, "2026-11-21T00%3A00%3A00"),
    ],
)
def test_values_are_spelled_as_iceberg_spells_them(
    kind: str, transform: str, value: int, text: str
) -> None:
    schema = Schema(0, (NestedField(1, "t", Primitive(kind)),))
    spec = PartitionSpec(0, (PartitionField(1, 1000, "p", Transform.parse(transform)),))
    assert partition_path(spec, (value,), schema) == f"p={text}"
