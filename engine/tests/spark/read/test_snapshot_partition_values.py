"""Which partition paths give the values of their columns for certain."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tideline.hudi.read.partition_values import PartitionColumn, PartitionLayout, unescape
from tideline.hudi.table.properties import TableConfig


def layout(*types: pa.DataType, hive: bool = False, encoded: bool = False) -> PartitionLayout:
    columns = tuple(PartitionColumn(f"p{n}", data_type) for n, data_type in enumerate(types))
    return PartitionLayout(columns, hive, encoded)


def config(**properties: str) -> TableConfig:
    keys = {
        "fields": "hoodie.table.partition.fields",
        "generator": "hoodie.table.keygenerator.class",
        "type": "hoodie.table.keygenerator.type",
        "drop": "hoodie.datasource.write.drop.partition.columns",
        "hive": "hoodie.datasource.write.hive_style_partitioning",
    }
    return TableConfig({keys[name]: text for name, text in properties.items()})


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (pa.string(), "2023-01-01"),
        (pa.string(), "日本 é"),
        (pa.string(), "a=b"),
        (pa.int32(), "-7"),
        (pa.int32(), "2147483647"),
        (pa.int64(), "-9223372036854775808"),
        (pa.bool_(), "true"),
        (pa.date32(), "2024-02-29"),
        (pa.float64(), "1.0E10"),
        (pa.float32(), "0.1"),
        (pa.decimal128(5, 2), "-123.40"),
    ],
)
def test_what_hudi_writes_for_a_value_is_that_value(data_type: pa.DataType, text: str) -> None:
    assert layout(data_type).values(text) == (text,)


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (pa.int32(), "007"),
        (pa.int32(), "2147483648"),
        (pa.int32(), "+7"),
        (pa.int64(), "1_000"),
        (pa.int64(), "-0"),
        (pa.int64(), "default"),
        (pa.bool_(), "True"),
        (pa.date32(), "2023-02-29"),
        (pa.date32(), "19700"),
        (pa.date32(), "2023/01/01"),
        (pa.float64(), "NaN"),
        (pa.float64(), "-0.0"),
        (pa.float32(), "1.0E39"),
        (pa.decimal128(5, 2), "123.4"),
        (pa.decimal128(5, 2), "1234.00"),
    ],
)
def test_text_that_no_value_is_written_as_is_uncertain(data_type: pa.DataType, text: str) -> None:
    assert layout(data_type).values(text) is None


def test_the_placeholder_is_null_where_the_column_cannot_be_empty_text() -> None:
    assert layout(pa.int32()).values("__HIVE_DEFAULT_PARTITION__") == (None,)
    assert layout(pa.string()).values("__HIVE_DEFAULT_PARTITION__") is None
    assert layout(pa.string()).values("default") is None


def test_hive_style_levels_carry_the_column_name() -> None:
    hive = layout(pa.string(), pa.int32(), hive=True)
    assert hive.values("p0=x=y/p1=3") == ("x=y", "3")
    assert hive.values("x/3") is None
    assert hive.values("p1=3/p0=x") is None
    assert layout(pa.string()).values("p0=x") is None


def test_only_encoded_paths_are_decoded() -> None:
    assert layout(pa.string(), encoded=True).values("a%2Fb%3Ac%25") == ("a/b:c%",)
    # Older writers encoded without saying so in the table's properties.
    assert layout(pa.string()).values("a%2Fb") is None
    assert layout(pa.string()).values("100%") == ("100%",)
    assert unescape("100%") == "100%"


def test_a_value_with_slashes_makes_more_levels_than_columns() -> None:
    assert layout(pa.string()).values("2015/03/17") is None
    assert layout(pa.string(), pa.string()).values("a") is None


SCHEMA = pa.schema([("day", pa.string()), ("hour", pa.int32()), ("at", pa.timestamp("us", "UTC"))])


def test_one_uncertain_column_leaves_the_others_to_prune_by() -> None:
    found = PartitionLayout.of(
        config(fields="day,at", generator="org.apache.hudi.keygen.ComplexKeyGenerator"), SCHEMA
    )
    assert found is not None
    assert found.schema == pa.schema([("day", pa.string())])
    assert found.values("x/1704450000000000") == ("x",)


def test_formatted_times_are_not_the_stored_values() -> None:
    timestamps = config(fields="day", generator="org.apache.hudi.keygen.TimestampBasedKeyGenerator")
    assert PartitionLayout.of(timestamps, SCHEMA) is None
    custom = config(fields="day:SIMPLE,hour:TIMESTAMP", type="CUSTOM")
    found = PartitionLayout.of(custom, SCHEMA)
    assert found is not None
    assert found.schema.names == ["day"]
    assert found.values("x/2024") == ("x",)
    assert found.values("x/2024/01") is None


def test_a_custom_key_generator_is_read_without_pruning() -> None:
    assert PartitionLayout.of(config(fields="day", generator="com.acme.MyKeys"), SCHEMA) is None


def test_nested_and_missing_fields_are_not_recovered() -> None:
    assert PartitionLayout.of(config(fields="a.b"), SCHEMA) is None
    assert PartitionLayout.of(config(), SCHEMA) is None


def test_columns_left_out_of_the_files_have_the_text_of_the_path() -> None:
    dropped = PartitionLayout.of(config(fields="day", drop="true"), SCHEMA)
    assert dropped is not None
    assert dropped.values("2024/01/05") == ("2024/01/05",)
    assert dropped.values("__HIVE_DEFAULT_PARTITION__") == (None,)
    two = PartitionLayout.of(config(fields="day,hour", drop="true", hive="true"), SCHEMA)
    assert two is not None
    assert two.values("day=x/hour=07") == ("x", "07")
