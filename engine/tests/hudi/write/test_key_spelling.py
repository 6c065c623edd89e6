"""Keys of one column that a complex key generator made are spelled as the table has them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.log.log_format import LogFormat
from tideline.hudi.write.key_spelling import key_generator
from tideline.testing.hand_written_table import HandWrittenTable

# The first column is what the table stores as record keys.
SCHEMA = pa.schema([("stored", pa.string()), ("id", pa.string())])


def table_of(folder: Path) -> HandWrittenTable:
    return HandWrittenTable.create(
        folder, SCHEMA, record_key=("id",), partition_by=("stored", "id")
    )


def rows(*stored: str) -> pa.Table:
    return pa.table({"stored": stored, "id": stored}, SCHEMA)


def test_a_table_without_rows_names_the_column(tmp_path: Path) -> None:
    assert key_generator(table_of(tmp_path).open()).qualified


@pytest.mark.parametrize(("key", "qualified"), [("id:7", True), ("7", False)])
def test_a_base_file_shows_the_spelling(tmp_path: Path, key: str, qualified: bool) -> None:
    table = table_of(tmp_path)
    table.commit("1", {("x/y", "f0"): rows(key)})
    assert key_generator(table.open()).qualified is qualified


@pytest.mark.parametrize("log_format", list(LogFormat))
@pytest.mark.parametrize(("key", "qualified"), [("id:7", True), ("7", False)])
def test_a_log_shows_the_spelling_where_there_is_no_base_file(
    tmp_path: Path, key: str, qualified: bool, log_format: LogFormat
) -> None:
    table = table_of(tmp_path)
    table.append("1", {}, {("x/y", "f0"): ["gone"]})
    table.append("2", {("x/y", "f0"): rows(key)}, log_format=log_format)
    assert key_generator(table.open()).qualified is qualified


def test_both_spellings_in_one_table_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.append("1", {("x/y", "f0"): rows("id:7", "7")})
    with pytest.raises(
        UnsupportedTableError, match="some record keys begin with id: and some do not"
    ):
        key_generator(table.open())
