"""Parquet files taken in by Spark and by this process: the same rows, types and refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.errors import ConfigError, InvalidDataError
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.execute.write_files import SourceWrite, write_sources
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation, TableTarget
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import ingest_of_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ON_SPARK = {"tideline.engine.small": "spark"}
Files = list[pa.Table]
NESTED = pa.struct([("a", pa.int32()), ("l", pa.list_(pa.struct([("c", pa.string())])))])


def no_spark() -> SparkSession:
    raise AssertionError("this needs no Spark")


def keyed(**columns: Any) -> pa.Table:
    count = len(next(iter(columns.values())))
    return pa.table({"id": pa.array(range(count), pa.int64()), **columns})


def shifted(table: pa.Table, by: int) -> pa.Table:
    ids = pa.array([by + number for number in range(table.num_rows)], pa.int64())
    return table.set_column(0, "id", ids)


def scalars() -> pa.Table:
    return keyed(
        flag=pa.array([True, None, False]),
        tiny=pa.array([1, -128, None], pa.int8()),
        short=pa.array([1, -32768, None], pa.int16()),
        whole=pa.array([1, -(2**31), None], pa.int32()),
        long=pa.array([1, -(2**63), None]),
        single=pa.array([0.1, float("nan"), None], pa.float32()),
        double=pa.array([0.1, float("-inf"), None]),
        text=["ä", "", None],
        large=pa.array(["ä", "", None], pa.large_string()),
        coded=pa.array(["x", None, "x"]).dictionary_encode(),
        raw=pa.array([b"\x00\xff", b"", None]),
    )


def numbers_and_days() -> pa.Table:
    return keyed(
        small=pa.array([Decimal("1.25"), Decimal("-9.99"), None], pa.decimal128(3, 2)),
        middle=pa.array([Decimal("1.25"), Decimal("-99999999.99"), None], pa.decimal128(12, 2)),
        huge=pa.array([Decimal(10) ** 30, Decimal("-0.00001"), None], pa.decimal128(38, 5)),
        day=pa.array([date(2024, 2, 29), date(1, 1, 1), None]),
    )


def times(unit: str) -> pa.Table:
    counts = [1_700_000_000_999, -1, None]
    return keyed(
        plain=pa.array(counts, pa.timestamp(unit)),
        zoned=pa.array(counts, pa.timestamp(unit, "Asia/Tokyo")),
    )


def nested() -> pa.Table:
    kind = pa.map_(pa.string(), pa.list_(pa.int32()))
    return keyed(
        s=pa.array([{"a": 1, "l": [{"c": "x"}, None]}, {"a": None, "l": []}, None], NESTED),
        m=pa.array([[("k", [1, None])], [], None], kind),
        times=pa.array([[datetime(2024, 1, 1)], [None], None], pa.list_(pa.timestamp("us"))),
    )


FILES: Mapping[str, Callable[[], Files]] = {
    "scalars": lambda: [scalars()],
    "numbers and days": lambda: [numbers_and_days()],
    "milliseconds": lambda: [times("ms")],
    "microseconds": lambda: [times("us")],
    "nanoseconds": lambda: [times("ns")],
    "nested": lambda: [nested()],
    "no rows": lambda: [scalars().slice(0, 0)],
    "no rows, then some": lambda: [nested().slice(0, 0), nested()],
    "other columns": lambda: [
        keyed(a=[1, 2]),
        shifted(keyed(b=["x"]), 5),
        shifted(keyed(a=[3], c=[1.5]), 6),
    ],
    "other types": lambda: [
        keyed(
            v=pa.array([1, 2], pa.int8()), w=pa.array([Decimal("1.25")] * 2, pa.decimal128(9, 2))
        ),
        shifted(keyed(v=[2**40], w=pa.array([Decimal("1.5")], pa.decimal128(3, 1))), 5),
        shifted(keyed(v=[1.5], w=pa.array([None], pa.decimal128(9, 2))), 6),
    ],
    "other case": lambda: [keyed(name=["a"]), shifted(keyed(NAME=["b"]), 5)],
    "other fields of structs": lambda: [
        keyed(s=pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))),
        shifted(keyed(s=pa.array([{"a": 2, "b": "x"}, None])), 5),
    ],
    "an export": lambda: [
        keyed(_hoodie_commit_time=["1"], _hoodie_record_key=["x"], v=[1]),
        shifted(keyed(v=[2]), 5),
    ],
    "its own order": lambda: [keyed(_tideline_sequence=[5, 1], v=[1, 2])],
    "keys again": lambda: [keyed(v=["first"]), keyed(v=["second"])],
    "deletes": lambda: [keyed(v=[1, 2]), keyed(v=[3], _hoodie_is_deleted=[True])],
}


def land(folder: Path, files: Files) -> StoreLocation:
    folder.mkdir()
    for number, rows in enumerate(files):
        pq.write_table(rows, folder / f"{number}.parquet")
    return StoreLocation.of(str(folder))


def stored(table: LakeTable) -> tuple[pa.Schema, list[dict[str, Any]]]:
    rows = table.to_arrow(columns=list((table.schema or pa.schema([])).names))
    found = sorted(rows.to_pylist(), key=lambda row: str(row["id"]))
    # NaN is equal to nothing.
    return rows.schema, [{name: repr(value) for name, value in row.items()} for row in found]


def write_twice(
    spark: SparkSession, folder: Path, sources: StoreLocation, schema: pa.Schema | None = None,
    **how: Any,
) -> tuple[LakeTable, LakeTable]:  # fmt: skip
    """The same files into two tables, by Spark and by this process."""
    operation = how.pop("operation", None)
    tables = []
    for name, options in (("spark", ON_SPARK), ("here", {})):
        uri = str(folder / name)
        if not (folder / name).exists():
            LakeTable.create(uri, record_key="id", schema=schema)
        wanted = SourceWrite(sources, "parquet", operation, options=options, **how)
        session = (lambda: spark) if options else no_spark
        write_sources(LakeTable.open(uri), session, wanted)
        tables.append(LakeTable.open(uri))
    return tables[0], tables[1]


@pytest.mark.parametrize("name", FILES)
def test_files_become_the_same_rows_of_the_same_types(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    on_spark, here = write_twice(spark, tmp_path, land(tmp_path / "in", FILES[name]()))
    assert stored(here) == stored(on_spark)


@pytest.mark.parametrize(
    "options",
    [
        {"use_deprecated_int96_timestamps": True},
        {"version": "1.0"},
        {"version": "2.4", "coerce_timestamps": "ms", "allow_truncated_timestamps": True},
        {"use_compliant_nested_type": False},
        {"store_schema": False},
        {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False},
    ],
)
def test_forms_of_parquet_are_read_alike(
    options: dict[str, Any], spark: SparkSession, tmp_path: Path
) -> None:
    rows = times("us").append_column("day", pa.array([date(1500, 1, 1), date(9999, 1, 1), None]))
    if "use_compliant_nested_type" in options:
        rows = nested()
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in/1.parquet", **options)
    sources = StoreLocation.of(str(tmp_path / "in"))
    on_spark, here = write_twice(spark, tmp_path, sources)
    assert stored(here) == stored(on_spark)


def test_rows_are_fitted_to_the_table_alike(spark: SparkSession, tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    fields = [
        ("id", pa.int64()),
        ("s", kind),
        ("l", pa.list_(kind)),
        ("m", pa.map_(pa.string(), kind)),
    ]
    schema = pa.schema([*fields, ("total", pa.float64())])
    less = pa.struct([("A", pa.int32())])
    rows = keyed(
        S=pa.array([{"A": 1}, None], less),
        l=pa.array([[{"A": 1}, None], None], pa.list_(less)),
        m=pa.array([[("k", {"A": 1})], None], pa.map_(pa.string(), less)),
        Total=pa.array([1, None], pa.int32()),
    )
    on_spark, here = write_twice(spark, tmp_path, land(tmp_path / "in", [rows]), schema)
    assert stored(here) == stored(on_spark)
    gone = land(tmp_path / "gone", [rows.select(["id"]).slice(0, 1)])
    on_spark, here = write_twice(spark, tmp_path, gone, operation="delete")
    assert stored(here) == stored(on_spark)
    assert len(stored(here)[1]) == 1


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ([keyed(v=[1]), keyed(v=["x"])], "1.parquet"),
        ([pa.table({"v": [1]})], "record key"),
        ([pa.table({"id": pa.array([1, None])})], "row 2"),
        ([keyed(t=pa.array([[1]], pa.list_(pa.timestamp("ns"))))], "nanoseconds inside"),
    ],
)
def test_what_does_not_fit_is_checked_by_spark_whoever_met_it(
    files: Files, words: str, spark: SparkSession, tmp_path: Path
) -> None:
    sources = land(tmp_path / "in", files)
    said = []
    for name, options in (("spark", ON_SPARK), ("here", {})):
        table = LakeTable.create(str(tmp_path / name), record_key="id")
        wanted = SourceWrite(sources, "parquet", None, options=options)
        with pytest.raises((InvalidDataError, ConfigError), match=words) as raised:
            write_sources(table, lambda: spark, wanted)
        said.append(str(raised.value).replace(str(tmp_path / name), ""))
        assert len(table.timeline().completed()) == 0
    assert said[0] == said[1]


@pytest.mark.parametrize("engine", ["in_process", "spark"])
def test_ingests_of_parquet_files_commit_the_same_on_either_engine(
    engine: str, spark: SparkSession, tmp_path: Path
) -> None:
    opened: list[str] = []

    def session(_: object) -> SparkSession:
        opened.append(engine)
        return spark

    landing = land(tmp_path / "in", [
        pa.table({"id": [1, 2], "ts": [1, 1], "v": ["a", "b"]}),
        pa.table({"id": [2], "TS": [2], "v": ["bb"], "w": [0.5]}),
    ])  # fmt: skip
    target = TableTarget(
        name="feed",
        location=Location(f"file://{tmp_path}/table"),
        record_key=("id",),
        ordering=("ts",),
        write_properties={"tideline.engine.small": engine},
    )

    def run(generation: int, name: str) -> OperationResult:
        found = list_arrived(landing.open(), FileFormat.PARQUET).files
        files = tuple(file for file in found if name in file.path)
        work = ingest_of_files(
            "landing", Location(landing.uri), FileFormat.PARQUET, files, generation
        )
        return execute_operation(Operation("feed-ingest", target, work), session_factory=session)

    first = run(0, "parquet")
    assert (first.outcome, first.source_files, first.rows_inserted) == (Outcome.SUCCEEDED, 2, 2)
    gone = pa.table({"id": [1], "ts": [3], "_hoodie_is_deleted": [True]})
    pq.write_table(gone, tmp_path / "in/gone.parquet")
    assert run(1, "gone").rows_deleted == 1
    assert run(1, "gone").outcome is Outcome.NOTHING
    rows = LakeTable.open(str(tmp_path / "table")).to_arrow(columns=["id", "ts", "v", "w"])
    assert rows.to_pylist() == [{"id": 2, "ts": 2, "v": "bb", "w": 0.5}]
    assert bool(opened) is (engine == "spark")


@pytest.mark.parametrize("options", [ON_SPARK, {}], ids=["spark", "in_process"])
def test_columns_that_files_lack_are_null_unless_the_write_is_strict(
    options: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    fields = [("id", pa.int64()), ("v", pa.string()), ("w", pa.float64())]
    schema = pa.schema([*fields, pa.field("needed", pa.int64(), nullable=False)])
    table = LakeTable.create(str(tmp_path / "table"), record_key="id", schema=schema)
    sources = land(tmp_path / "in", [keyed(v=["a"], needed=[1])])
    strict = SourceWrite(sources, "parquet", None, options=options, strict=True)
    with pytest.raises(InvalidDataError, match="lacks columns of the table: w"):
        write_sources(table, lambda: spark, strict)
    lacks = land(tmp_path / "lacks", [keyed(v=["a"])])
    with pytest.raises(InvalidDataError, match="lacks required columns of the table: needed"):
        write_sources(table, lambda: spark, replace(strict, location=lacks, strict=False))
    write_sources(table, lambda: spark, replace(strict, strict=False))
    assert table.to_arrow(columns=["id", "v", "w", "needed"]).to_pylist() == [
        {"id": 0, "v": "a", "w": None, "needed": 1}
    ]


@pytest.mark.parametrize("options", [ON_SPARK, {}], ids=["spark", "in_process"])
def test_new_and_wider_columns_are_reported_alike(
    options: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    table = LakeTable.create(str(tmp_path / "table"), record_key="id")
    first = land(tmp_path / "a", [keyed(v=pa.array([1], pa.int32()))])
    wanted = SourceWrite(first, "parquet", None, options=options)
    report = write_sources(table, lambda: spark, wanted).report
    assert report.columns_added == ("id int64", "v int32")
    wider = land(tmp_path / "b", [keyed(v=pa.array([2**40]), w=["x"])])
    report = write_sources(table, lambda: spark, replace(wanted, location=wider)).report
    assert report.columns_added == ("w string",)
    assert report.columns_widened == ("v int32 to int64",)
