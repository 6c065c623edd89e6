"""Required columns and fields: rows without them are refused, those of younger columns are not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tideline.errors import InvalidDataError
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.testing.small_table import ONCE, QUIET, memory_place

PLACE = pa.struct([pa.field("zip", pa.int32(), nullable=False), pa.field("city", pa.string())])
OLD = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64(), False)])
NEW = pa.schema([*OLD, pa.field("place", PLACE)])
HERE = {"zip": 1, "city": None}


def created(schema: pa.Schema, table_type: TableType) -> LakeTable:
    location, clock = memory_place()
    return LakeTable.create(
        location.uri, record_key=["id"], schema=schema, table_type=table_type.value, clock=clock
    )


def write(table: LakeTable, schema: pa.Schema, *rows: tuple[Any, ...]) -> None:
    given = [dict(zip(schema.names, row, strict=True)) for row in rows]
    table.write(pa.Table.from_pylist(given, schema), "upsert", options=QUIET)


def stored(table: LakeTable, name: str = "place") -> list[tuple[str, Any]]:
    rows = table.to_arrow(["id", name]).to_pylist()
    return sorted((row["id"], row[name]) for row in rows)


@pytest.mark.parametrize("table_type", list(TableType), ids=str)
def test_files_older_than_a_struct_with_required_fields_are_written_again(
    table_type: TableType,
) -> None:
    table = created(OLD, table_type)
    write(table, OLD, ("a", 1), ("b", 2), ("c", 3))
    write(table, NEW, ("a", 1, HERE))
    if table_type is TableType.MERGE_ON_READ:
        assert table.run("compaction", options=ONCE).done
    table.update("id = 'b'", {"n": 5}, options=QUIET)
    write(table, NEW, ("c", 3, None))
    assert stored(table) == [("a", HERE), ("b", None), ("c", None)]


@pytest.mark.parametrize("table_type", list(TableType), ids=str)
def test_an_update_leaves_required_what_is(table_type: TableType) -> None:
    table = created(NEW, table_type)
    write(table, NEW, ("a", 1, HERE), ("b", 2, None))
    table.update("id = 'a'", {"place": None}, options=QUIET)
    table.update("id = 'b'", {"place": HERE, "n": 7}, options=QUIET)
    for change in ({"n": None}, {"place": {"zip": None, "city": "x"}}):
        with pytest.raises(InvalidDataError, match=r"required|rows cannot be stored"):
            table.update("id = 'b'", change, options=QUIET)
    assert stored(table) == [("a", None), ("b", HERE)]
    assert stored(table, "n") == [("a", 1), ("b", 7)]
    schema = table.schema
    assert schema is not None
    assert not schema.field("n").nullable
