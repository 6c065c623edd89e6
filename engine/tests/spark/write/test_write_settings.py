"""Settings of writes do what they say: on rows, and on the files that hold them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tideline.errors import ConfigError, InvalidDataError
from tideline.lake_table import LakeTable
from tideline.testing.plain_reader import live_files, newest_commit
from tideline.testing.written_table import CHOSEN, Engine, WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("ts", pa.int64()),
                    ("v", pa.string())])  # fmt: skip
DUPLICATES = "hoodie.datasource.insert.dup.policy"
OVERWRITE = "hoodie.datasource.overwrite.mode"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    return WrittenTable.create(
        spark, tmp_path / "t", SCHEMA, partition_by=["region"], ordering=["ts"]
    )


def test_an_insert_leaves_stored_keys_out_or_is_refused(table: WrittenTable) -> None:
    table.write([(1, "north", 1, "a"), (2, "south", 1, "a")], "insert")
    # The same key of another partition is another row, and copies within the batch stay.
    batch = [(1, "north", 9, "b"), (2, "north", 9, "b"), (3, "north", 9, "b"), (3, "north", 9, "c")]
    kept = [(1, "a"), (2, "a"), (2, "b"), (3, "b"), (3, "c")]
    with pytest.raises(InvalidDataError, match="1 row whose key is stored"):
        table.write(batch, "insert", {DUPLICATES: "fail"})
    assert len(table.rows()) == 2
    report = table.write(batch, "insert", {DUPLICATES: "drop"})
    assert (report.rows_inserted, report.rows_updated) == (3, 0)
    assert table.rows("id", "v") == kept
    drops = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    assert table.write(batch, "insert", drops).rows_inserted == 0
    assert table.write([(9, "west", 1, "x")], "insert", {DUPLICATES: "fail"}).rows_inserted == 1
    assert table.rows("id", "v") == [*kept, (9, "x")]
    with pytest.raises(ConfigError, match="for the operation insert"):
        table.write(batch, "upsert", drops)


@pytest.mark.slow_with("spark")
def test_a_global_index_knows_stored_keys_of_other_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    properties = {"hoodie.index.type": "GLOBAL_SIMPLE", DUPLICATES: "drop"}
    table = WrittenTable.create(
        spark, tmp_path / "g", SCHEMA, partition_by=["region"], properties=properties
    )
    table.write([(1, "north", 1, "a")], "insert")
    table.write([(1, "south", 2, "b"), (2, "south", 2, "b")], "insert")
    assert table.rows("id", "v") == [(1, "a"), (2, "b")]
    # Stored in the table the policy waits for inserts.
    table.write([(1, "north", 3, "c")])
    assert table.rows("id", "v") == [(1, "c"), (2, "b")]


@pytest.mark.slow_with("spark")
def test_an_overwrite_replaces_partitions_or_the_table(table: WrittenTable) -> None:
    table.write([(1, "north", 1, "a"), (2, "south", 1, "a")], "insert")
    table.write([(3, "north", 1, "b")], "insert_overwrite", {OVERWRITE: "DYNAMIC"})
    assert table.rows("id") == [(2,), (3,)]
    table.write([(4, "north", 1, "c")], "insert_overwrite", {OVERWRITE: "STATIC"})
    assert table.rows("id") == [(4,)]
    assert newest_commit(table.folder)["operationType"] == "INSERT_OVERWRITE_TABLE"
    for operation, mode in (("insert", "STATIC"), ("insert_overwrite_table", "DYNAMIC")):
        with pytest.raises(ConfigError, match="is for insert_overwrite"):
            table.write([(5, "north", 1, "d")], operation, {OVERWRITE: mode})


@pytest.mark.slow_with(
    "spark-hoodie.write.set.null.for.missing.columns",
    "spark-hoodie.datasource.write.reconcile.schema",
)
@pytest.mark.parametrize(
    "name",
    ["hoodie.write.set.null.for.missing.columns", "hoodie.datasource.write.reconcile.schema"],
)
def test_columns_that_the_input_lacks_are_null_when_asked_for(
    table: WrittenTable, spark: SparkSession, name: str
) -> None:
    table.write([(1, "north", 1, "a")], "insert")
    lacking = spark.createDataFrame(
        [(1, "north", 2), (2, "north", 2)], "id long, region string, ts long"
    )
    with pytest.raises(InvalidDataError, match="lacks columns"):
        table.lake.write(lacking, strict=True)
    table.write(lacking, options={name: "true"})
    assert table.rows("id", "ts", "v") == [(1, 2, None), (2, 2, None)]


@pytest.mark.slow_with("spark")
def test_an_option_names_the_operation(table: WrittenTable) -> None:
    name = "hoodie.datasource.write.operation"
    frame = table.frame([(1, "north", 1, "a")])
    table.lake.write(frame, options={name: "insert"})
    report = table.lake.write(frame, options={"write.operation": "insert"})
    assert (report.operation, len(table.rows())) == ("insert", 2)
    with pytest.raises(ConfigError, match="contradicts the operation upsert"):
        table.lake.write(frame, "upsert", options={name: "insert"})
    assert table.lake.write(frame).operation == "upsert"


def test_settings_that_repeat_the_table_are_taken_and_others_refused(table: WrittenTable) -> None:
    repeated = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.payload.class": (
            "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
        ),
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.datasource.write.hive_style_partitioning": "false",
    }
    table.write([(1, "north", 1, "a")], options=repeated)
    others = {
        "hoodie.table.name": "u",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id,ts",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.precombine.field": "v",
        "hoodie.datasource.write.keygenerator.type": "COMPLEX",
        "hoodie.datasource.write.payload.class": "org.example.MyPayload",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    for name, text in others.items():
        with pytest.raises(ConfigError, match="contradicts the table"):
            table.write([(1, "north", 2, "b")], options={name: text})
    assert table.rows("v") == [("a",)]


def test_base_files_are_encoded_as_asked_for(table: WrittenTable) -> None:
    values = [(number, "north", 1, f"{number % 7}" * 40) for number in range(4_000)]
    table.write(values, "insert")
    (file,) = live_files(table.folder)
    plain = pq.ParquetFile(file).metadata.row_group(0).column(8)
    assert (plain.path_in_schema, plain.compression) == ("v", "SNAPPY")
    assert plain.has_dictionary_page
    options = {
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.parquet.dictionary.enabled": "false",
        "hoodie.parquet.page.size": "2000",
    }
    table.write(values, "insert_overwrite_table", options)
    (file,) = live_files(table.folder)
    other = pq.ParquetFile(file).metadata.row_group(0).column(8)
    assert (other.compression, other.has_dictionary_page) == ("ZSTD", False)
    assert len(table.rows()) == 4_000


def test_a_bulk_insert_is_written_by_so_many_tasks(table: WrittenTable) -> None:
    if CHOSEN.engine is not Engine.SPARK:
        pytest.skip("Spark's tasks")
    frame = table.frame([(n, "north", 1, "a") for n in range(40)]).repartition(4)
    for mode, tasks, files in (("NONE", 0, 4), ("NONE", 1, 1), ("GLOBAL_SORT", 2, 2)):
        options = {
            "hoodie.bulkinsert.sort.mode": mode,
            "hoodie.bulkinsert.shuffle.parallelism": str(tasks),
        }
        assert table.write(frame, "bulk_insert", options).files_written == files
    assert len(table.rows()) == 120


def test_an_unknown_option_is_refused_before_anything_is_written(table: WrittenTable) -> None:
    for options in ({"hoodie.clean.commit.retained": "1"}, {"hoodie.metadata.enable": "often"}):
        with pytest.raises(ConfigError):
            table.write([(1, "north", 1, "a")], options=options)
    assert len(LakeTable.open(str(table.folder)).timeline()) == 0
