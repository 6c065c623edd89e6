"""An update changes the rows that match and no others, whatever keys they are stored under."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import UnsupportedTableError
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.testing.hand_written_table import HandWrittenTable
from tideline.testing.small_table import QUIET

SCHEMA = pa.schema([("stored", pa.string()), ("id", pa.string()), ("v", pa.int64())])
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}


def as_others_wrote(
    folder: Path, *rows: tuple[str, str, int], has_no_keys: bool = False, **definition: Any
) -> LakeTable:
    """One file with these rows, each with the key that it is stored under; of a bucket, where the
    table has some. With `has_no_keys` the table has no columns of Hudi's."""
    table = HandWrittenTable.create(folder, SCHEMA, record_key=("id",), **definition)
    if has_no_keys:
        table.set_properties({"hoodie.populate.meta.fields": "false"})
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    bucket = "00000000" if definition.get("properties") else "7c9e6679"
    file_id = f"{bucket}-7425-40de-944b-e07fc1f90ae7-0"
    table.commit("1", {("", file_id): pa.table(columns, schema=SCHEMA)})
    return LakeTable(table.open())


def values(table: LakeTable) -> list[int]:
    return sorted(table.to_arrow(["v"])["v"].to_pylist())


@pytest.mark.parametrize("properties", [{}, BUCKETS], ids=["by-key", "by-hash"])
@pytest.mark.parametrize("table_type", list(TableType), ids=str)
def test_a_copy_of_a_key_in_the_same_file_is_not_updated_with_it(
    tmp_path: Path, table_type: TableType, properties: dict[str, str]
) -> None:
    rows = [("a", "a", 1), ("a", "a", 2), ("b", "b", 3)]
    table = as_others_wrote(tmp_path, *rows, table_type=table_type, properties=properties)
    for where in ("v = 1", "v = 2"):
        with pytest.raises(UnsupportedTableError, match="1 row matches, but 2 have the same keys"):
            table.update(where, {"v": 9}, options=QUIET)
    table.update("v = 3", {"v": 4}, options=QUIET)
    table.update("v = 4", {"v": 5}, options=QUIET)
    assert values(table) == [1, 2, 5]


@pytest.mark.parametrize("properties", [{}, BUCKETS], ids=["by-key", "by-hash"])
def test_a_row_under_another_key_than_its_columns_say_is_not_added_again(
    tmp_path: Path, properties: dict[str, str]
) -> None:
    table = as_others_wrote(tmp_path, ("A", "a", 1), ("b", "b", 2), properties=properties)
    with pytest.raises(UnsupportedTableError, match="2 rows match, but 1 is found by key"):
        table.update("v < 9", {"v": 3}, options=QUIET)
    assert values(table) == [1, 2]


@pytest.mark.parametrize("table_type", list(TableType), ids=str)
@pytest.mark.parametrize("has_no_keys", [False, True], ids=["keys", "no-keys"])
def test_copies_of_a_key_that_match_are_not_made_one_row(
    tmp_path: Path, table_type: TableType, has_no_keys: bool
) -> None:
    rows = [("a", "a", 1), ("a", "a", 2), ("b", "b", 3)]
    table = as_others_wrote(tmp_path, *rows, table_type=table_type, has_no_keys=has_no_keys)
    with pytest.raises(UnsupportedTableError, match="a key is stored twice among the rows"):
        table.update("id = 'a'", {"stored": "c"}, options=QUIET)
    with pytest.raises(UnsupportedTableError, match="1 row matches, but 2 have the same keys"):
        table.update("v = 2", {"v": 9}, options=QUIET)
    table.update("v = 3", {"v": 5}, options=QUIET)
    assert values(table) == [1, 2, 5]
