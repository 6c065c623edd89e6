"""A merge that knows where stored rows of its keys are gives the file that a look at them gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.hudi.file_group import merge_handle
from tideline.hudi.file_group.file_settings import ParquetSettings
from tideline.hudi.file_group.handle_context import STORED_ROW
from tideline.hudi.file_group.merge_handle import merge_base_file
from tideline.testing.handle_case import HandleCase, base_file, handle_input

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int32()), ("body", pa.string())])
STORED = 60


def rows(numbers: list[int], n: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number:03d}" for number in numbers],
            "n": pa.array([n] * len(numbers), pa.int32()),
            "body": [f"{n} of {number}" * 5 for number in numbers],
        },
        schema=SCHEMA,
    )


def merged(
    numbers: list[int],
    deletes: list[bool],
    stored_rows: list[int] | None,
    **options: Any,
) -> tuple[bytes, Any]:
    """The new file, and what the stat counts."""
    parquet = ParquetSettings(copied_bytes_min=0, row_group_rows_max=20)
    case = HandleCase.of(SCHEMA, parquet=parquet, **options)
    (stat,) = case.create(rows([number * 7 % STORED for number in range(STORED)], 0))
    case.advance()
    given = handle_input(rows(numbers, 7), deletes=deletes)
    if stored_rows is not None:
        given = given.append_column(STORED_ROW, pa.array(stored_rows, pa.int64()))
    (after,) = merge_base_file(case.ctx, case.store, base_file(stat), given)
    counted = after.num_writes, after.num_update_writes, after.num_inserts, after.num_deletes
    return case.store.get(after.path or ""), counted


def places(numbers: list[int]) -> list[int]:
    where = {place * 7 % STORED: place for place in range(STORED)}
    return [where.get(number, -1) for number in numbers]


@settings(max_examples=20, deadline=None)
@given(st.data(), st.sampled_from([{}, {"partial_update_columns": ("n",)}]))
def test_files_are_the_same(data: st.DataObject, options: dict[str, Any]) -> None:
    numbers = data.draw(st.lists(st.integers(0, STORED + 20), unique=True, min_size=1))
    deletes = data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    expected = merged(numbers, deletes, None, **options)
    assert merged(numbers, deletes, places(numbers), **options) == expected
    others = data.draw(st.permutations(places(numbers)))
    assert merged(numbers, deletes, list(others), **options) == expected


def test_keys_are_not_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [3, 59, 61, 20]
    expected = merged(numbers, [False] * 4, None)
    monkeypatch.delattr(merge_handle, "find_matches")
    assert merged(numbers, [False] * 4, places(numbers)) == expected
    monkeypatch.undo()
    # Places behind the end of the file are of another one.
    assert merged(numbers, [False] * 4, [STORED, STORED + 1, -1, STORED + 5]) == expected
