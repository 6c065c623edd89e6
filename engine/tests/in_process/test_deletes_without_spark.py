"""Rows that a condition matches are found and deleted in this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, ConflictError
from tideline.hudi.read.matching_rows import matching_rows
from tideline.lake_table import LakeTable
from tideline.write_and_serve import delete_found

_ROWS = pa.table(
    {
        "id": ["a", "b", "c", "d"],
        "day": ["mon", "mon", "tue", "tue"],
        "n": [1, 2, 3, None],
        "cost": [1.5, float("nan"), 2.5, None],
    }
)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    found = tideline.create(
        str(tmp_path / "t"), record_key="id", partition_by="day", table_type=request.param
    )
    found.write(_ROWS)
    found.write(pa.table({"id": ["a"], "day": ["mon"], "n": [10], "cost": [0.5]}))
    return found


def left(table: LakeTable) -> list[str]:
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


@pytest.mark.parametrize(
    ("where", "stays"),
    [
        ("n > 2", ["b", "d"]),
        ("not n > 2", ["a", "c", "d"]),
        ("n is null or day = 'mon'", ["c"]),
        ("cost > 1", ["a", "d"]),
        ("id in ('a', 'z')", ["b", "c", "d"]),
        ("n > 100", ["a", "b", "c", "d"]),
    ],
)
def test_what_matches_goes_in_one_commit(table: LakeTable, where: str, stays: list[str]) -> None:
    commits = len(table.timeline().writes().completed())
    report = table.delete(where)
    assert report.rows_deleted == 4 - len(stays)
    assert left(table) == stays
    assert len(table.timeline().writes().completed()) == commits + 1


def test_a_column_that_is_not_there_is_named(table: LakeTable) -> None:
    with pytest.raises(ConfigError, match="no such column"):
        table.delete("m > 2")
    assert left(table) == ["a", "b", "c", "d"]


def test_a_token_deletes_once(table: LakeTable) -> None:
    first = table.delete("n = 3", token="once")
    table.write(_ROWS.slice(2, 1))
    again = table.delete("n = 3", token="once")
    assert again.instant == first.instant
    assert again.is_repeat
    assert left(table) == ["a", "b", "c", "d"]


def test_rows_that_others_delete_after_they_matched_are_a_conflict(table: LakeTable) -> None:
    found = matching_rows(table.hoodie_table, "n >= 3", 1 << 20)
    assert found is not None
    table.delete("id = 'c'")
    for _ in range(2):
        with pytest.raises(ConflictError, match=r"(try|write) again"):
            delete_found(table.writer, found, None, {}, lambda _: None)
    assert left(table) == ["a", "b", "d"]
    assert table.delete("n >= 2").rows_deleted == 2
    assert left(table) == ["d"]


def test_spark_is_not_even_loaded(tmp_path: Path) -> None:
    program = """
import sys, tideline, pyarrow as pa
table = tideline.create(sys.argv[1], record_key="id")
table.write(pa.table({"id": [1, 2, 3]}))
assert table.delete("id >= 2").rows_deleted == 2
assert "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "t")], check=True)
