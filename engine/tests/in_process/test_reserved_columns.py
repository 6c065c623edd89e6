"""Columns of the input that are named like Hudi's own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.lake_table import LakeTable

ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    made = LakeTable.create(str(tmp_path / "t"), record_key=["id"])
    made.write(ROWS)
    return made


def test_rows_that_were_read_are_written_again(table: LakeTable) -> None:
    rows = table.to_arrow()
    assert "_hoodie_record_key" in rows.schema.names
    table.write(rows)
    assert table.count() == 2


@pytest.mark.parametrize("name", ["_hoodie_note", "_HOODIE_RECORD_KEY", "_hoodie_"])
def test_a_column_that_is_none_of_them_is_refused_by_name(table: LakeTable, name: str) -> None:
    rows = ROWS.append_column(name, pa.array(["x", "y"]))
    with pytest.raises(InvalidDataError, match=f"'{name}': names that begin with _hoodie_"):
        table.write(rows)
    assert table.delete("n = 1").rows_deleted == 1
    table.write(rows.drop_columns([name]).append_column("note", pa.array(["x", "y"])))
    assert "note" in table.to_arrow().schema.names
