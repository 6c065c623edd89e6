"""Where the rows of a batch may come from, and tables that are written on after others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tideline.errors import InvalidDataError
from tideline.hudi.write.write_operation import WriteOperation
from tideline.lake_table import LakeTable
from tideline.spark.write.run import is_cheap_to_repeat, open_engine
from tideline.testing.fixtures import fixture_table
from tideline.testing.plain_reader import newest_commit, objects, stored_rows
from tideline.testing.write_batch import write_batch
from tideline.testing.written_table import SMALL_BLOOM, WrittenTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("either_engine")]

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> WrittenTable:
    return WrittenTable.create(
        spark, tmp_path / "t", SCHEMA, partition_by=["region"], ordering=["ts"]
    )


def plain_rows(count: int, ts: int) -> list[tuple[str, str, int, str]]:
    return [(f"k{n}", f"r{n % 2}", ts, f"v{n}") for n in range(count)]


@pytest.fixture
def parquet(table: WrittenTable, tmp_path: Path) -> DataFrame:
    """Two parquet files, later rows in the second."""
    for number in range(2):
        rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in plain_rows(20, number)]
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(
            pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "in" / f"{number}.parquet"
        )
    return table.spark.read.parquet(str(tmp_path / "in"))


def shouted(name: str) -> Column:
    return F.udf(str.upper, T.StringType())(name)


def test_only_plain_reads_of_parquet_are_repeated(
    spark: SparkSession, parquet: DataFrame, tmp_path: Path
) -> None:
    renamed = parquet.where("ts > 0").select("id", F.upper("v").alias("v"), "ts", "region")
    local = spark.createDataFrame(pa.table({"id": ["a"]}))
    assert all(is_cheap_to_repeat(frame) for frame in (parquet, renamed, local))
    parquet.limit(3).write.csv(str(tmp_path / "csv"), header=True)
    dear = {
        "text": spark.read.csv(str(tmp_path / "csv"), header=True),
        "join": parquet.join(local, "id"),
        "python": parquet.withColumn("v", shouted("v")),
        "random": parquet.withColumn("v", F.rand()),
        "number": parquet.withColumn("v", F.monotonically_increasing_id()),
        "time": parquet.withColumn("v", F.date_format(F.current_timestamp(), "yyyy")),
        "limit": parquet.limit(5),
    }
    assert [name for name, frame in dear.items() if is_cheap_to_repeat(frame)] == []


@pytest.mark.slow_with("spark")
def test_rows_that_would_differ_at_a_second_look_are_looked_at_once(
    table: WrittenTable, parquet: DataFrame
) -> None:
    """Random keys and partitions: each row is written once, where its own values say."""
    table.write(plain_rows(6, 0), "insert")
    once = parquet.select(
        F.expr("uuid()").alias("id"),
        F.concat(F.lit("r"), (F.rand() * 3).cast("int")).alias("region"),
        "ts",
        shouted("v").alias("v"),
    )
    report = table.write(once, "upsert")
    assert report.rows_inserted == 40
    stored = stored_rows(table.folder)
    assert len(stored) == 46
    assert all(row["_hoodie_record_key"] == row["id"] for row in stored)
    assert all(row["_hoodie_partition_path"] == row["region"] for row in stored)
    assert sorted(row["v"] for row in stored if row["v"].isupper()) == sorted(
        f"V{n}" for n in [*range(20), *range(20)]
    )
    assert table.spark.sparkContext._jsc.getPersistentRDDs().isEmpty()


def test_files_and_joins_give_their_rows(table: WrittenTable, parquet: DataFrame) -> None:
    table.write(parquet, "upsert")
    assert table.rows() == sorted(plain_rows(20, 1), key=lambda row: tuple(map(str, row)))
    names = table.spark.createDataFrame(
        [(f"k{n}", f"joined {n}") for n in range(4)], "id string, v string"
    )
    joined = parquet.where("ts = 1").drop("v").join(names, "id").withColumn("ts", F.lit(2))
    report = table.write(joined)
    assert report.rows_updated == 4
    assert [row[1] for row in table.rows("id", "v") if row[1].startswith("j")] == [
        f"joined {n}" for n in range(4)
    ]


def test_an_empty_batch_commits_and_changes_nothing(table: WrittenTable) -> None:
    for operation in ("insert", "bulk_insert", "insert_overwrite_table"):
        report = table.write([], operation)
        assert (report.files_written, report.rows_written) == (0, 0)
        metadata = newest_commit(table.folder)
        assert metadata["partitionToWriteStats"] == {}
        assert metadata["operationType"] == operation.upper()
    table.write(plain_rows(4, 1))
    parquet = {path for path in objects(table.folder) if path.endswith(".parquet")}
    for operation in ("upsert", "delete", "insert_overwrite"):
        table.write([], operation)
    assert {path for path in objects(table.folder) if path.endswith(".parquet")} == parquet
    assert len(table.rows()) == 4


def test_an_input_that_changes_while_it_is_read_loses_no_row_unnoticed(
    table: WrittenTable, parquet: DataFrame, tmp_path: Path
) -> None:
    lake, config = table.lake, table.lake.writer.config_for_rows(None)
    engine = open_engine(parquet, lake.hoodie_table, WriteOperation.INSERT, config)
    whole = pq.read_table(tmp_path / "in" / "1.parquet")
    pq.write_table(whole.slice(0, 3), tmp_path / "in" / "1.parquet")
    with pytest.raises(InvalidDataError, match="the input had 40 rows when inspected and 23 when"):
        write_batch(lake, engine, WriteOperation.INSERT)
    assert table.rows() == []


NO_META = "v6_simplekeygen_hivestyle_no_metafields"


@pytest.fixture
def without_meta(tmp_path: Path) -> Iterator[Path]:
    """A real table of Hudi 0.14 with `hoodie.populate.meta.fields=false`."""
    shutil.copytree(fixture_table(f"hudi-rs.cow.{NO_META}/data/{NO_META}"), tmp_path / "t")
    yield tmp_path / "t"


@pytest.mark.slow_with("spark")
@pytest.mark.fixtures
def test_a_table_of_hudis_without_meta_columns_is_written_by_virtual_keys(
    spark: SparkSession, without_meta: Path
) -> None:
    lake = LakeTable.open(str(without_meta))
    before = {row["id"]: row for row in stored_rows(without_meta)}
    assert before.keys() == {1, 2, 3, 4}
    rows = lake.snapshot(spark).drop("_hoodie_commit_time")
    changed = rows.where("id in (1, 4)").withColumn("name", F.concat("name", F.lit("!")))
    late = rows.where("id = 2").withColumn("name", F.lit("late"))
    late = late.withColumn("longField", F.col("longField") - 1)
    new = rows.where("id = 3").withColumn("id", F.lit(9))
    options = {**SMALL_BLOOM, "hoodie.index.type": "BLOOM"}
    report = lake.write(changed.union(late).union(new), "upsert", options=options)
    assert (report.rows_updated, report.rows_inserted) == (2, 1)
    after = {row["id"]: row for row in stored_rows(without_meta)}
    assert {key: row["name"] for key, row in after.items()} == {
        1: "Alice!", 2: before[2]["name"], 3: "Carol", 4: before[4]["name"] + "!", 9: "Carol",
    }  # fmt: skip
    user = [name for name in before[2] if not name.startswith("_hoodie_")]
    assert {name: after[2][name] for name in user} == {name: before[2][name] for name in user}
    options["hoodie.index.type"] = "GLOBAL_SIMPLE"
    lake.write(rows.where("id in (1, 2)").select("id", "byteField"), "delete", options=options)
    assert sorted(row["id"] for row in stored_rows(without_meta)) == [3, 4, 9]


def test_a_table_whose_commits_name_no_schema_is_known_by_its_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    LakeTable.create(str(folder), record_key=["id"], properties=SMALL_BLOOM)
    table = WrittenTable(spark, folder, SCHEMA)
    table.write(plain_rows(2, 1), "insert")
    for path in (folder / ".hoodie").glob("*.commit"):
        metadata = json.loads(path.read_bytes())
        del metadata["extraMetadata"]["schema"]
        path.write_text(json.dumps(metadata))
    frame = table.frame([("k0", "r0", 2, "new")])
    with pytest.raises(InvalidDataError, match=r"the input lacks columns of the table .*value=v"):
        table.lake.write(frame.drop("v"), "upsert", strict=True)
    table.write(frame.withColumn("ts", F.col("ts").cast("double")))
    assert table.rows() == [("k0", "r0", 2.0, "new"), ("k1", "r1", 1.0, "v1")]


@pytest.mark.slow_with("spark")
def test_complex_keys_of_one_field_are_spelled_as_the_table_spells_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Hudi's versions differ; a new table names the field, an old one decides by its keys."""
    table = WrittenTable.create(spark, tmp_path / "t", SCHEMA, key_generator="COMPLEX")
    table.write([("a", "r", 1, "1")])
    assert stored_rows(table.folder)[0]["_hoodie_record_key"] == "id:a"
    table.write([("a", "r", 1, "2")])
    assert table.rows("id", "v") == [("a", "2")]
    plain = WrittenTable.create(spark, tmp_path / "p", SCHEMA)
    plain.write([("a", "r", 1, "1")])
    properties = plain.folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("NonpartitionedKeyGenerator", "ComplexKeyGenerator"))
    plain.write([("a", "r", 1, "2"), ("b", "r", 1, "2")])
    keys = [row["_hoodie_record_key"] for row in stored_rows(plain.folder)]
    assert sorted(keys) == ["a", "b"]
