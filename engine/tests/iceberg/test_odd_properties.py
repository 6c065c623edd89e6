"""Properties that mean nothing: refused by name before a file is written, or left aside."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, CorruptTableError
from tideline.iceberg_lake_table import IcebergLakeTable

COLUMNS = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])
ROWS = [{"id": 1, "v": "a"}]


def created(name: str, value: str) -> IcebergLakeTable:
    place = f"memory://{uuid.uuid4().hex}/table"
    return tideline.create_iceberg(place, COLUMNS, properties={name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.parquet.page-row-limit", "0"),
        ("write.parquet.page-row-limit", "many"),
        ("write.parquet.page-size-bytes", "0"),
        ("write.parquet.row-group-size-bytes", "-1"),
        ("write.parquet.dict-size-bytes", "-1"),
        ("write.parquet.compression-level", "high"),
        ("write.metadata.metrics.max-inferred-column-defaults", "all"),
    ],
)
def test_a_number_that_is_none_is_named(name: str, value: str) -> None:
    table = created(name, value)
    with pytest.raises(ConfigError, match=name) as caught:
        table.write(ROWS)
    assert caught.value.value == value
    assert not list(table.table.io.list(f"{table.uri}/data"))


def test_the_number_of_values_of_a_bloom_filter_is_one() -> None:
    table = created("write.parquet.bloom-filter-enabled.column.v", "true")
    with pytest.raises(ConfigError, match=r"bloom-filter-ndv\.column\.v is a number"):
        table.write(ROWS, options={"write.parquet.bloom-filter-ndv.column.v": "many"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.parquet.dict-size-bytes", "0"),
        ("write.metadata.metrics.max-inferred-column-defaults", "-1"),
        ("schema.name-mapping.default", "[]"),
    ],
)
def test_what_iceberg_takes_is_taken(name: str, value: str) -> None:
    table = created(name, value)
    table.write(ROWS)
    assert table.to_arrow().to_pylist() == ROWS
    assert table.files()["rows"].to_pylist() == [1]
    assert not table.check()


@pytest.mark.parametrize(
    "mapping", ["[1]", '{"field-id": 1}', '[{"names": "id"}]', '[{"names": [], "fields": [2]}]']
)
def test_a_name_mapping_that_is_none_is_named(mapping: str) -> None:
    table = created("schema.name-mapping.default", mapping)
    with pytest.raises(CorruptTableError, match="no list of fields"):
        table.to_arrow()
