"""`read` and `files` of a merge-on-read table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.hudi.table.properties import TableType
from tideline.testing.hand_written_table import HandWrittenTable, instant_time

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32())])
GROUP = ("", "11111111-2222-3333-4444-555555555555-0")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """a=1 and b=1 in a base file, a=2 in its log, b deleted by another."""
    table = HandWrittenTable.create(tmp_path, SCHEMA, table_type=TableType.MERGE_ON_READ)
    table.commit("1", {GROUP: pa.table([["a", "b"], [1, 1]], schema=SCHEMA)})
    table.append("2", {GROUP: pa.table([["a"], [2]], schema=SCHEMA)})
    table.append("3", {}, {GROUP: ["b"]})
    return str(tmp_path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_rows_are_read_merged_and_without_logs(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(capsys, "read", uri)["rows"] == [{"id": "a", "n": 2}]
    base = answer(capsys, "read", uri, "--read-optimized")["rows"]
    assert base == [{"id": "a", "n": 1}, {"id": "b", "n": 1}]
    as_of = answer(capsys, "read", uri, "--as-of", str(instant_time("2")))["rows"]
    assert sorted(row["id"] for row in as_of) == ["a", "b"]
    changed = answer(capsys, "read", uri, "--after", str(instant_time("1")))["rows"]
    assert changed == [{"id": "a", "n": 2}]


def test_reading_only_base_files_of_the_past_is_a_usage_error(uri: str) -> None:
    assert run(["read", uri, "--read-optimized", "--as-of", "2024-01-01"]) == 2


def test_files_names_the_logs_of_every_file_group(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = answer(capsys, "list-files", uri)["files"]
    assert group["base_file"].endswith(".parquet")
    assert [Path(path).suffixes[-2:] for path in group["log_files"]] == [
        [".log", ".1_0-1-0"],
        [".log", ".2_0-1-0"],
    ]
    assert run(["list-files", uri]) == 0
    assert "1 file group" in capsys.readouterr().out
