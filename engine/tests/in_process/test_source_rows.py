"""Which parquet files are read in this process, and within which bounds."""

from __future__ import annotations

import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.in_process.source_files.rows import read_source_rows
from tideline.in_process.source_files.schema import memory_bytes
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation

LIMIT = 64 * 1024 * 1024


def read(folder: Path, rows: pa.Table, limit: int = LIMIT, **options: Any) -> pa.Table | str:
    pq.write_table(rows, folder / "1.parquet", **options)
    return read_source_rows(StoreLocation.of(str(folder)).open(), ["1.parquet"], limit)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"a": [1], "A": [2]}, "differ by case only"),
        ({"a.b": [1]}, "no column's"),
        ({"v": pa.array([1], pa.uint64())}, "column v is of a type"),
        ({"v": pa.array([1], pa.duration("us"))}, "column v is of a type"),
        ({"v": pa.array([1], pa.time64("us"))}, "column v is of a type"),
        ({"v": pa.array([b"x"], pa.binary(1))}, "column v is of a type"),
        ({"v": pa.array([None], pa.null())}, "column v is of a type"),
        ({"v": pa.array([1.0], pa.float16())}, "column v is of a type"),
        ({"v": pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))}, "column v is of a type"),
        ({"v": pa.array([[1]], pa.list_(pa.timestamp("ns")))}, "column v is of a type"),
    ],
)
def test_what_arrow_reads_otherwise_is_sparks(
    rows: dict[str, Any], words: str, tmp_path: Path
) -> None:
    found = read(tmp_path, pa.table(rows))
    assert isinstance(found, str)
    assert words in found


def test_files_in_the_old_calendar_are_sparks(tmp_path: Path) -> None:
    rows = pa.table({"v": [1]}).replace_schema_metadata({"org.apache.spark.version": "2.4.8"})
    found = read(tmp_path, rows)
    assert isinstance(found, str)
    assert "calendar" in found


def test_what_is_no_parquet_file_is_sparks_to_check(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"PAR1 and then nothing")
    store = StoreLocation.of(str(tmp_path)).open()
    assert isinstance(read_source_rows(store, ["1.parquet"], LIMIT), str)
    assert isinstance(read_source_rows(store, ["gone.parquet"], LIMIT), str)


def test_rows_are_estimated_before_they_are_read_and_counted_while_they_are(
    tmp_path: Path,
) -> None:
    numbers = pa.table({"v": list(range(100_000))})
    found = read(tmp_path, numbers, 100_000)
    assert isinstance(found, str)
    assert memory_bytes(pq.read_metadata(tmp_path / "1.parquet")) >= numbers.nbytes
    # A dictionary of one long text: far larger in memory than any footer says.
    texts = pa.table({"v": ["x" * 10_000] * 10_000})
    found = read(tmp_path, texts, 10_000_000, row_group_size=500)
    assert memory_bytes(pq.read_metadata(tmp_path / "1.parquet")) < 10_000_000
    assert isinstance(found, str)
    assert "MiB of memory" in found
    whole = read(tmp_path, texts, 200_000_000)
    assert isinstance(whole, pa.Table)
    assert whole.num_rows == 10_000


def test_parquet_files_are_written_where_spark_is_not_installed(tmp_path: Path) -> None:
    uri, source = str(tmp_path / "table"), tmp_path / "1.parquet"
    LakeTable.create(uri, record_key="id", ordering="n")
    pq.write_table(pa.table({"id": ["a", "b"], "n": [1, 2]}), source)
    script = (
        "import sys; sys.modules['pyspark'] = None; from tideline.cli.main import run; "
        "sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "write", uri, "--source", str(source)]
    done = run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 inserted" in done.stdout
    assert LakeTable.open(uri).to_arrow(columns=["n"]).column("n").to_pylist() == [1, 2]
    text = tmp_path / "1.csv"
    text.write_text("id,n\nc,3\n")
    done = run([*command[:-1], str(text), "--format", "csv"],
               capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert "csv is parsed by Spark" in done.stderr
