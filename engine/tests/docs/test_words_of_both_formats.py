"""The one table of docs/iceberg.md on what both formats call the same is what the facades have."""

from __future__ import annotations

import re
from pathlib import Path

from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.lake_table import LakeTable

PAGE = Path(__file__).resolve().parents[3] / "docs" / "iceberg.md"
_WORD = re.compile(r"`(\w+)")


def test_each_word_of_either_facade_is_in_the_table() -> None:
    hudi, iceberg = _public(LakeTable), _public(IcebergLakeTable)
    of_both, of_one = set[str](), set[str]()
    for words, both, *_ in _rows():
        names = set(_WORD.findall(words))
        assert names and not names & (of_both | of_one), words
        (of_both if both else of_one).update(names)
    assert of_both == hudi & iceberg
    assert of_one == hudi ^ iceberg


def test_what_one_format_lacks_has_a_word_for_it() -> None:
    rows = _rows()
    assert len(rows) > 20
    for row in rows:
        assert len(row) == 4 and row[2] and row[3], row


def _rows() -> list[list[str]]:
    section = PAGE.read_text("utf-8").split("\n## The same words\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _public(facade: type) -> set[str]:
    return {name for name in dir(facade) if not name.startswith("_")}
