"""What a Hudi table registers as, and how its partition folders become values."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.table_config import TableConfig
from tideline.registration.definition import Definition, definition, spark_schema_of
from tideline.registration.metastore import RegisteredColumn
from tideline.registration.partition_values import PartitionValues, partition_name
from tideline.registration.table_name import TableName

DAYS = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}
ESCAPED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}

DATED = pa.schema(
    [
        ("day", pa.date32()),
        ("seen", pa.timestamp("us", tz="UTC")),
        ("tick", pa.timestamp("ms")),
        ("at", pa.timestamp("us")),
    ]
)


def config(partitions: str = "", **properties: str) -> TableConfig:
    given = {"hoodie.table.name": "trips", "hoodie.table.recordkey.fields": "id"}
    if partitions:
        given["hoodie.table.partition.fields"] = partitions
    given["hoodie.table.type"] = "COPY_ON_WRITE"
    return TableConfig({**given, **{name.replace("__", "."): v for name, v in properties.items()}})


def defined(described: TableConfig, columns: pa.Schema) -> Definition:
    name = TableName("lake", "trips")
    return definition(described, columns, name=name, location="s3a://b/trips", parameters={})


def test_columns_are_in_hives_words_and_in_sparks() -> None:
    columns = pa.schema(
        [
            pa.field("Id", pa.int64(), nullable=False),
            ("small", pa.int32()),
            ("ok", pa.bool_()),
            ("share", pa.float32()),
            ("price", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("hash", pa.binary(16)),
            ("Where", pa.struct([("City", pa.string()), ("zips", pa.list_(pa.int32()))])),
            ("fares", pa.map_(pa.string(), pa.float64())),
        ]
    )
    (table,) = defined(config(), columns).tables
    types = {column.name: column.type for column in table.columns}
    assert list(types)[:5] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    ]
    assert list(types.items())[5:] == [
        ("id", "bigint"),
        ("small", "int"),
        ("ok", "boolean"),
        ("share", "float"),
        ("price", "decimal(10,2)"),
        ("day", "date"),
        ("at", "timestamp"),
        ("local", "timestamp"),
        ("hash", "binary"),
        ("where", "struct<city:string,zips:array<int>>"),
        ("fares", "map<string,double>"),
    ]
    spark = {
        field["name"]: field for field in json.loads(spark_schema_of(table.parameters))["fields"]
    }
    assert spark["Id"] == {"name": "Id", "type": "long", "nullable": False, "metadata": {}}
    assert spark["at"]["type"] == "timestamp"
    assert spark["local"]["type"] == "timestamp_ntz"
    assert spark["Where"]["type"]["fields"][1]["type"]["elementType"] == "integer"
    assert spark["fares"]["type"]["valueType"] == "double"


def test_a_merge_on_read_table_is_three_and_partition_columns_come_apart() -> None:
    columns = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
    (plain,) = defined(config("part"), columns).tables
    assert [column.name for column in plain.columns][5:] == ["id", "v"]
    assert [(column.name, column.type) for column in plain.partition_columns] == [
        ("part", "string")
    ]
    order = [field["name"] for field in json.loads(spark_schema_of(plain.parameters))["fields"]]
    assert order[5:] == ["id", "v", "part"]
    assert plain.parameters["spark.sql.sources.schema.partCol.0"] == "part"
    merged = defined(config("part", hoodie__table__type="MERGE_ON_READ"), columns).tables
    assert [str(table.name) for table in merged] == [
        "lake.trips_ro",
        "lake.trips_rt",
        "lake.trips",
    ]
    formats = [table.format.input_format.rpartition(".")[2] for table in merged]
    realtime = "HoodieParquetRealtimeInputFormat"
    assert formats == ["HoodieParquetInputFormat", realtime, realtime]
    as_ro = [table.format.serde_parameters["hoodie.query.as.ro.table"] for table in merged]
    assert as_ro == ["true", "false", "false"]


def test_a_long_schema_is_in_parts() -> None:
    columns = pa.schema([(f"column_number_{number}", pa.string()) for number in range(200)])
    (table,) = defined(config(), columns).tables
    parts = int(table.parameters["spark.sql.sources.schema.numParts"])
    assert parts > 2
    assert max(map(len, table.parameters.values())) == 4000
    assert len(json.loads(spark_schema_of(table.parameters))["fields"]) == 205


@pytest.mark.parametrize(
    ("described", "folder", "values"),
    [
        (config("part"), "p0", ("p0",)),
        (config("part"), "part=p0", ("p0",)),
        (config("part"), "a/b", ("a/b",)),
        (config("part"), "a%2Fb", ("a%2Fb",)),
        (config("part", **ESCAPED), "part=a%2Fb", ("a/b",)),
        (config("part,day"), "part=p0/day=2024-01-05", ("p0", "2024-01-05")),
        (config("part,day"), "p0/19727", ("p0", "2024-01-05")),
        (config("part,day"), "p0/__HIVE_DEFAULT_PARTITION__", ("p0", "__HIVE_DEFAULT_PARTITION__")),
        (config("day"), "day=-1", ("1969-12-31",)),
        (config("day"), "99999999", ("99999999",)),
        (config("seen"), "1704424305678901", ("2024-01-05 03:11:45.678901",)),
        (config("seen"), "seen=1704424305000000", ("2024-01-05 03:11:45",)),
        (config("seen"), "-1", ("1969-12-31 23:59:59.999999",)),
        (config("seen"), "2024-01-05 03:11:45.0", ("2024-01-05 03:11:45.0",)),
        (config("seen"), "__HIVE_DEFAULT_PARTITION__", ("__HIVE_DEFAULT_PARTITION__",)),
        (config("tick"), "1704424305678", ("2024-01-05 03:11:45.678",)),
        (config("at", **DAYS), "2024/01/05", ("2024/01/05",)),
        (config("at", **DAYS), "at=2024/01/05", ("2024/01/05",)),
        (
            config(
                "part:SIMPLE,at:TIMESTAMP",
                **{**DAYS, "hoodie.table.keygenerator.type": "CUSTOM"},
            ),
            "part=p0/at=2024/01/05",
            ("p0", "2024/01/05"),
        ),
        (config(), "", ()),
    ],
)
def test_folders_become_values(described: TableConfig, folder: str, values: Any) -> None:
    assert PartitionValues(described, DATED).of(folder) == values


def test_a_number_stays_one_in_a_column_of_numbers() -> None:
    values = PartitionValues(config("seen,day"), DATED)
    for kind, value in (("bigint", "1704424305000000"), ("timestamp", "2024-01-05 03:11:45")):
        columns = [RegisteredColumn("seen", kind), RegisteredColumn("day", "date")]
        folder = "1704424305000000/19727"
        assert values.registered_as(columns).of(folder) == (value, "2024-01-05")


def test_a_formatted_time_is_text_whatever_its_column_holds() -> None:
    columns = pa.schema([("id", pa.string()), ("at", pa.int64())])
    (table,) = defined(config("at", **DAYS), columns).tables
    assert [(column.name, column.type) for column in table.partition_columns] == [("at", "string")]


def test_names_of_partitions_are_escaped_as_hive_does() -> None:
    assert partition_name(["Part", "b"], ["a/b:c", "d e"]) == "part=a%2Fb%3Ac/b=d e"


@pytest.mark.parametrize(
    ("described", "columns", "words"),
    [
        (
            config(hoodie__table__base__file__format="ORC"),
            pa.schema([("id", pa.string())]),
            "only tables of Parquet files",
        ),
        (
            config(),
            pa.schema([("id", pa.string()), ("ID", pa.string())]),
            "differ in upper and lower case alone",
        ),
        (config(), pa.schema([("id", pa.duration("us"))]), "Hive has no type"),
    ],
)
def test_what_no_metastore_can_hold_is_refused(
    described: TableConfig, columns: pa.Schema, words: str
) -> None:
    with pytest.raises(UnsupportedTableError, match=words):
        defined(described, columns)


def test_a_folder_without_a_level_for_each_column_is_refused() -> None:
    for folder in ("p0", "p0/a/b", "p0/"):
        with pytest.raises(UnsupportedTableError, match="not one level for each"):
            PartitionValues(config("part,day")).of(folder)
