"""`execute --operation FILE`: what a Job runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.cli.main import run
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CreateTable, Operation, RollBack, TableTarget, Work
from tideline.ingest.sources.files.listing import FileFormat
from tideline.ingest.sources.files.look import list_arrived
from tideline.storage.location import StoreLocation
from tideline.testing.file_ingests import ingest_of_files

COLUMNS = (Column("id", ColumnType.parse("string")), Column("n", ColumnType.parse("long")))


def place(path: Path) -> Location:
    return Location(StoreLocation.of(path).uri)


def written_down(tmp_path: Path, work: Work) -> str:
    """An operation on the table `tmp_path/table`, as a planner leaves it for a Job."""
    target = TableTarget("lake/orders", place(tmp_path / "table"), ("id",), schema=COLUMNS)
    file = tmp_path / "operation.json"
    file.write_text(json.dumps(Operation("orders-1", target, work).to_json_object()))
    return str(file)


def result_line(capsys: pytest.CaptureFixture[str]) -> Any:
    output = capsys.readouterr().out
    assert output.count("\n") == 1
    return json.loads(output)


def test_creating_prints_its_result_as_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operation = written_down(tmp_path, CreateTable())
    assert run(["execute", "--operation", operation]) == 0
    assert result_line(capsys)["outcome"] == "succeeded"
    assert run(["execute", "--operation", operation]) == 0
    assert result_line(capsys)["outcome"] == "nothing"


def test_rolling_back_a_table_that_is_sound_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["execute", "--operation", written_down(tmp_path, CreateTable())]) == 0
    capsys.readouterr()
    operation = written_down(tmp_path, RollBack(("20240102030405678",)))
    assert run(["execute", "--operation", operation]) == 0
    assert result_line(capsys)["outcome"] == "nothing"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_ingesting_says_how_many_rows_came_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    pq.write_table(pa.table({"id": ["a", "b"], "n": [1, 2]}), landing / "1.parquet")
    files = list_arrived(StoreLocation.of(landing).open(), FileFormat.PARQUET).files
    work = ingest_of_files("landing", place(landing), FileFormat.PARQUET, files, generation=0)
    assert run(["execute", "--operation", written_down(tmp_path, work)]) == 0
    result = result_line(capsys)
    assert (result["outcome"], result["rows_inserted"], result["source_files"]) == (
        "succeeded",
        2,
        1,
    )


def test_a_failed_operation_exits_with_the_code_of_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "table" / ".hoodie").mkdir(parents=True)
    (tmp_path / "table" / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=9\n")
    assert run(["execute", "--operation", written_down(tmp_path, RollBack(()))]) == 1
    result = result_line(capsys)
    assert (result["outcome"], result["exit_code"]) == ("failed", 1)
    assert result["message"]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_file_that_holds_no_operation_is_a_usage_error(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "operation.json"
    file.write_text(content)
    assert run(["execute", "--operation", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_operation_stands_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operation = written_down(tmp_path, CreateTable())
    assert run(["execute", "rollback", str(tmp_path), "--operation", operation]) == 2
    assert "stands alone" in capsys.readouterr().err
    assert not (tmp_path / "table").exists()
