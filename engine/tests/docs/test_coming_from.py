"""The page for those who come from other libraries: its last column runs, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coming-from.md"
_TABLE = """
import sys
import pandas, polars, pyarrow, tideline
uri = sys.argv[1]
made = tideline.create(uri, record_key="id", partition_by="day", table_type="MERGE_ON_READ")
made.write([{"id": "a", "day": "mon", "n": 1}, {"id": "b", "day": "tue", "n": 2}])
rows = [{"id": "c", "day": "tue", "n": 3}]
t = tideline.open(uri)
df = t.to_pandas()
"""


def rows_of_the_page() -> list[tuple[str, str]]:
    """What each row is for, and its code in the last column."""
    cells = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("|") and not line.startswith("|---")
    ]
    return [(row[0], row[-1].strip("`")) for row in cells if row[-1] not in ("Tideline",)]


def test_the_page_has_rows_for_each_library() -> None:
    assert len(rows_of_the_page()) >= 35


def test_every_row_of_the_page_runs(tmp_path: Path) -> None:
    lines = [_TABLE]
    for number, (purpose, code) in enumerate(rows_of_the_page()):
        lines.append(
            f"try:\n    {code}\nexcept Exception as error:\n"
            f"    print({number}, {purpose!r}, repr(error))\n"
        )
    lines.append("assert 'pyspark' not in sys.modules, 'Spark was loaded'\n")
    program = tmp_path / "page.py"
    program.write_text("".join(lines))
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "orders")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("word", ["PyIceberg", "delta-rs", "Hudi", "pandas"])
def test_the_page_is_about(word: str) -> None:
    assert word in PAGE.read_text("utf-8").splitlines()[0]
