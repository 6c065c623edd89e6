"""Reading source files on Spark: schemas across files, order of arrival, files at fault."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.sources.files.named_files import Sources, find_sources, source_bytes
from tideline.spark.source_files.bad_input import find_bad_input
from tideline.spark.source_files.intake import Intake
from tideline.spark.source_files.landed_rows import (
    cast_text,
    column_types,
    known_types,
    mark_deletes,
    struct_of,
    transform_rows,
)
from tideline.spark.source_files.sources import (
    SourceSettings,
    UnreadableFilesError,
    failure_reason,
    read_files,
    types_of,
)
from tideline.storage.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SEQUENCE = "_tideline_sequence"


def test_a_job_that_runs_out_of_memory_names_what_to_raise() -> None:
    text = (
        "Job aborted.\nCaused by: java.lang.OutOfMemoryError: Java heap space\n\tat x.y(z.java:1)"
    )
    assert failure_reason(RuntimeError(text)) == (
        "Java heap space; Spark has too little memory: raise spec.resources.executor.memory or, "
        "where Spark has no executors, that of its driver"
    )
    lost = "Task 0 failed 4 times: ExecutorLostFailure (executor 3 exited) Reason:\n"
    lost += "The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM)."
    assert "raise spec.resources.executor.memory" in failure_reason(RuntimeError(lost))
    assert "memory" not in failure_reason(RuntimeError("the file is gone"))


def settings(folder: Path, file_format: str = "csv", **fields: Any) -> SourceSettings:
    return SourceSettings(StoreLocation.of(str(folder)), file_format, **fields)


def put(folder: Path, files: Mapping[str, str | bytes]) -> list[str]:
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body.encode() if isinstance(body, str) else body)
    return list(files)


def in_order(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows in order of arrival, without the column that gives it."""
    return [tuple(row)[:-1] for row in frame.orderBy(SEQUENCE).collect()]


def test_rows_come_in_order_of_file_and_position_regardless_of_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["z.csv", "a b%20ü#1.csv", "day=1/g{1}[2]*?.csv"]
    paths = put(tmp_path, {name: f"id,f\n2,{at}\n1,{at}\n" for at, name in enumerate(names)})
    frame = read_files(spark, paths, settings(tmp_path))
    assert in_order(frame) == [(2, 0), (1, 0), (2, 1), (1, 1), (2, 2), (1, 2)]


@pytest.mark.slow
def test_order_holds_across_the_parts_that_spark_splits_a_file_into(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = 450_000
    body = "id,filler\n" + "".join(f"{number},{'x' * 20}\n" for number in range(rows))
    paths = put(tmp_path, {"big.csv": body, "small.csv": "id,filler\n-1,y\n"})
    split = {"multiLine": "false"}
    frame = read_files(spark, paths, settings(tmp_path, options=split))
    assert frame.rdd.getNumPartitions() > 1
    ids = [row[0] for row in frame.orderBy(SEQUENCE).select("id").toLocalIterator()]
    assert ids == [*range(rows), -1]
    assert frame.select(SEQUENCE).distinct().count() == rows + 1


def test_parquet_files_with_other_columns_and_narrower_types_become_one_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "a": ["x", "y"]}),
                   tmp_path / "1.parquet")  # fmt: skip
    pq.write_table(pa.table({"b": [1.5], "ID": pa.array([3], pa.int64())}), tmp_path / "2.parquet")
    frame = read_files(spark, ["1.parquet", "2.parquet"], settings(tmp_path, "parquet"))
    found = [(row.id, row.a, row.b) for row in frame.orderBy(SEQUENCE).collect()]
    assert found == [(1, "x", None), (2, "y", None), (3, None, 1.5)]
    assert dict(column_types(frame)) == {"id": "bigint", "a": "string", "b": "double"}


def test_nanoseconds_become_microseconds_rounded_down(spark: SparkSession, tmp_path: Path) -> None:
    nanos = [1_700_000_000_000_000_999, -1]
    table = pa.table(
        {
            "zoned": pa.array(nanos, pa.timestamp("ns", tz="Asia/Tokyo")),
            "plain": pa.array(nanos, pa.timestamp("ns")),
        }
    )
    pq.write_table(table, tmp_path / "1.parquet")
    frame = read_files(spark, ["1.parquet"], settings(tmp_path, "parquet"))
    assert dict(column_types(frame)) == {"zoned": "timestamp", "plain": "timestamp_ntz"}
    micros = frame.orderBy(SEQUENCE).selectExpr(
        "unix_micros(zoned)", "unix_micros(cast(plain as timestamp))"
    )
    assert [tuple(row) for row in micros.collect()] == [(1_700_000_000_000_000,) * 2, (-1, -1)]
    pq.write_table(pa.table({"s": pa.array([[nanos[0]]], pa.list_(pa.timestamp("ns")))}),
                   tmp_path / "2.parquet")  # fmt: skip
    with pytest.raises(UnreadableFilesError, match="column s holds times in nanoseconds inside"):
        read_files(spark, ["2.parquet"], settings(tmp_path, "parquet"))


def test_parquet_files_whose_types_clash_are_refused_naming_the_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(UnreadableFilesError, match="column id cannot change") as raised:
        read_files(spark, ["1.parquet", "2.parquet"], settings(tmp_path, "parquet"))
    assert set(raised.value.reasons) == {"2.parquet"}, "the file that came first decides"


def test_columns_that_hudi_puts_into_an_export_clash_with_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    export = {"_hoodie_commit_time": ["20260101"], "_hoodie_record_key": ["1"], "id": [1]}
    pq.write_table(pa.table(export), tmp_path / "1.parquet")
    pq.write_table(pa.table({"id": [2]}), tmp_path / "2.parquet")
    frame = read_files(spark, ["1.parquet", "2.parquet"], settings(tmp_path, "parquet"))
    found = [(row.id, row._hoodie_commit_time) for row in frame.orderBy(SEQUENCE).collect()]
    assert found == [(1, "20260101"), (2, None)]


def test_csv_is_read_as_its_standard_has_it(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("1", 'say "hi", twice', "two\nlines"), ("2", "a\\", "x"), ("3", '","', "\n\n")]
    for end in ("\n", "\r\n"):
        with (tmp_path / "1.csv").open("w", newline="") as stream:
            csv.writer(stream, lineterminator=end).writerows([("id", "v", "w"), *rows])
        known = types_of(pa.schema({name: pa.string() for name in ("id", "v", "w")}))
        frame = read_files(spark, ["1.csv"], settings(tmp_path, known=known))
        assert in_order(frame) == rows
    put(tmp_path, {"1.csv": "id,v,w\n1,a,b\r\n2,c,d\r\n"})
    assert in_order(read_files(spark, ["1.csv"], settings(tmp_path, known=known))) == [
        ("1", "a", "b"), ("2", "c", "d")
    ]  # fmt: skip
    put(tmp_path, {"1.csv": "id,v,w\n1,'it''s',b\n2,\"c,d\n"})
    other = settings(tmp_path, known=known, options={"Quote": "'", "MULTILINE": "false"})
    assert in_order(read_files(spark, ["1.csv"], other)) == [("1", "it's", "b"), ("2", '"c', "d")]


def test_csv_headers_may_differ_in_order_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    paths = put(
        tmp_path,
        {
            "1.csv": "id,d,v\n1,2026-01-31,a\n",
            "2.csv": "v,id\r\nb,2\r\n",
            "3.csv": "d,id,v,n,nothing\n,3,c,9,",
        },
    )
    frame = read_files(spark, paths, settings(tmp_path))
    found = [(row.id, row.d, row.v, row.n) for row in frame.orderBy(SEQUENCE).collect()]
    assert found == [(1, date(2026, 1, 31), "a", None), (2, None, "b", None), (3, None, "c", 9)]
    assert dict(column_types(frame))["id"] == "bigint"


def test_known_types_win_over_what_one_batch_looks_like(
    spark: SparkSession, tmp_path: Path
) -> None:
    known = types_of(pa.schema({"zip": pa.string(), "n": pa.float64()}))
    paths = put(tmp_path, {"1.csv": "zip,n,new\n01234,1,7\n"})
    frame = read_files(spark, paths, settings(tmp_path, known=known))
    assert in_order(frame) == [("01234", 1.0, 7)]
    paths = put(tmp_path, {"1.json": '{"ZIP": "01234", "n": 1, "new": {"a": 1}}\n'})
    frame = read_files(spark, paths, settings(tmp_path, "json", known=known))
    assert dict(column_types(frame)) == {"ZIP": "string", "n": "double", "new": "struct<a:bigint>"}


def test_declared_columns_are_all_there_is(spark: SparkSession, tmp_path: Path) -> None:
    declared = struct_of(pa.schema({"id": pa.int32(), "v": pa.string()}))
    paths = put(tmp_path, {"1.csv": "noise,v,id\nx,007,1\n"})
    frame = read_files(spark, paths, settings(tmp_path, declared=declared))
    assert frame.columns == ["v", "id", SEQUENCE]
    assert in_order(frame) == [("007", 1)]
    paths = put(tmp_path, {"2.csv": "1,a\n2,b\n"})
    headless = settings(tmp_path, declared=declared, options={"header": "false"})
    assert in_order(read_files(spark, paths, headless)) == [(1, "a"), (2, "b")]
    with pytest.raises(ConfigError, match="declared schema"):
        read_files(spark, paths, settings(tmp_path, options={"header": "false"}))


def find_bad_files(
    spark: SparkSession, paths: list[str], reading: SourceSettings
) -> dict[str, str]:
    """The files at fault, as an ingest finds them: some, then more among the others."""

    def compute(rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    bad: dict[str, str] = {}
    while True:
        rest = [path for path in paths if path not in bad]
        found = find_bad_input(Intake(spark, reading), rest, rows_max=None, try_rows=compute).files
        if not found:
            return bad
        bad |= found


BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "short.csv": ("id,v\n1,a\n2", "row 2 (line 3): it has 1 value where there are 2 columns"),
    "long.csv": ("id,v\n1,a,b\n", "row 1 (line 2): it has 3 values where there are 2 columns"),
    "type.csv": ("id,v\nx,a\n", "row 1 (line 2), column id: 'x' is not of type bigint"),
    "cut.csv.gz": (gzip.compress(b"id,v\n" + b"".join(b"%d,%d\n" % (n, n * n % 997) for n in
                                                       range(4000)))[:6000], "end of input"),
    "text.csv.gz": ("id,v\n" + "1,a\n" * 999, "gzip"),
}  # fmt: skip


@pytest.mark.slow
def test_only_the_csv_files_at_fault_are_found_each_with_a_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = {f"good{number}.csv": "id,v\n1,a\n" for number in range(6)}
    paths = put(tmp_path, {**good, **{name: body for name, (body, _) in BAD_CSV.items()}})
    known = types_of(pa.schema({"id": pa.int64(), "v": pa.string()}))
    bad = find_bad_files(spark, sorted(paths), settings(tmp_path, known=known))
    assert set(bad) == set(BAD_CSV)
    for name, (_, reason) in BAD_CSV.items():
        assert reason in bad[name]
        assert "\n" not in bad[name]


def test_only_the_json_files_at_fault_are_found(spark: SparkSession, tmp_path: Path) -> None:
    paths = put(
        tmp_path,
        {"good.json": '{"id": 1}\n{"id": 2}', "cut.json": '{"id": 1}\n{"id": ', "no.json": "hello"},
    )
    assert set(find_bad_files(spark, paths, settings(tmp_path, "json"))) == {"cut.json", "no.json"}


def test_parquet_files_at_fault_are_found_by_footer_or_by_page(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = pa.table({"id": list(range(50_000))})
    for name in ("good", "cut", "torn"):
        pq.write_table(table, tmp_path / f"{name}.parquet", compression="none")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-50])
    (tmp_path / "torn.parquet").write_bytes(whole[:4] + b"\x55" * 5_000 + whole[5_004:])
    (tmp_path / "text.parquet").write_text("hello")
    paths = ["good.parquet", "cut.parquet", "torn.parquet", "text.parquet"]
    with pytest.raises(UnreadableFilesError) as raised:
        read_files(spark, paths, settings(tmp_path, "parquet"))
    assert set(raised.value.reasons) == {"cut.parquet", "text.parquet"}
    bad = find_bad_files(spark, paths, settings(tmp_path, "parquet"))
    assert set(bad) == {"cut.parquet", "torn.parquet", "text.parquet"}


def test_a_transform_sees_the_rows_as_source_and_may_keep_their_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = put(tmp_path, {"1.csv": "id,v\n1,a\n2,\n"})
    rows = read_files(spark, paths, settings(tmp_path))
    kept = transform_rows(spark, rows, "select * from source where v is not null")
    assert in_order(kept) == [(1, "a")]
    assert not spark.catalog.tableExists("source")
    for query in ("select nothing from source", "selekt", "select * from elsewhere"):
        with pytest.raises(ConfigError, match="transform"):
            transform_rows(spark, rows, query)


def test_a_condition_marks_deletes_and_null_does_not_delete(
    spark: SparkSession, tmp_path: Path
) -> None:
    paths = put(tmp_path, {"1.csv": "id,v\n1,gone\n2,here\n3,\n"})
    rows = mark_deletes(read_files(spark, paths, settings(tmp_path)), "v = 'gone'")
    found = {row.id: row._hoodie_is_deleted for row in rows.collect()}
    assert found == {1: True, 2: False, 3: False}
    with pytest.raises(ConfigError, match="deleteWhen"):
        mark_deletes(rows, "no_such_column = 1")


def test_text_is_cast_to_the_types_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    paths = put(tmp_path, {"1.csv": "id,t\n1,2026-01-31\n"})
    rows = read_files(
        spark, paths, settings(tmp_path, known=types_of(pa.schema({"t": pa.string()})))
    )
    table = pa.schema(
        [
            pa.field("id", pa.int32()),
            pa.field("t", pa.date32()),
            pa.field("absent", pa.float64()),
        ]
    )
    assert dict(column_types(cast_text(rows, table))) == {"id": "int", "t": "date"}


def test_types_survive_being_remembered(spark: SparkSession) -> None:
    schema = "a bigint, m map<string,decimal(10,2)>, s struct<x:int,y:array<date>>"
    frame = spark.createDataFrame([], schema)
    assert known_types(column_types(frame)) == {item.name: item.dataType for item in frame.schema}


def test_a_file_or_a_folder_is_one_source(tmp_path: Path) -> None:
    put(tmp_path, {"in/b.csv": "id\n2\n", "in/a.csv": "id\n1\n", "in/_hidden.csv": "x\ny\n"})
    folder = StoreLocation.of(str(tmp_path / "in"))
    assert find_sources(folder) == Sources(folder, ("a.csv", "b.csv"))
    single = StoreLocation.of(str(tmp_path / "in/b.csv"))
    assert find_sources(single) == Sources(folder, ("b.csv",))
    with pytest.raises(InvalidDataError, match="no source file"):
        find_sources(StoreLocation.of(str(tmp_path / "none")))


def test_the_bytes_of_a_source_are_those_of_the_files_that_are_read(tmp_path: Path) -> None:
    put(tmp_path, {"in/b.csv": "id\n22\n", "in/a.csv": "id\n1\n", "in/_hidden.csv": "x\ny\n"})
    assert source_bytes(StoreLocation.of(str(tmp_path / "in"))) == 11
    assert source_bytes(StoreLocation.of(str(tmp_path / "in/b.csv"))) == 6
