"""Row groups may be left out of files that are whole slices, under the names they have now."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tideline.formats.parquet_rows import ParquetRows
from tideline.hudi.table.table_config import TableType
from tideline.testing.small_table import SmallTable, batch


@pytest.fixture
def filters(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each base file that was read had a filter."""
    seen: list[bool] = []
    original = ParquetRows._row_groups

    def noticed(rows: ParquetRows) -> object:
        seen.append(rows._row_filter is not None)
        return original(rows)

    monkeypatch.setattr(ParquetRows, "_row_groups", noticed)
    return seen


def test_a_slice_with_logs_is_read_whole(filters: list[bool]) -> None:
    """The stored row is older by its value, which the condition asks for: it must meet its log."""
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ, ordering=["v"])
    table.write("insert", batch(range(4), 5, partitions=1))
    condition = pc.field("v") < 5
    assert table.lake().to_arrow(["id"], condition).num_rows == 0
    assert filters == [True]
    table.write("upsert", batch([1], 3, partitions=1))
    filters.clear()
    assert table.lake().to_arrow(["id"], condition).num_rows == 0, "the older row loses"
    assert filters == [False]
    table.forget()


def test_files_are_read_without_what_the_condition_rules_out() -> None:
    table = SmallTable.in_memory()
    table.write("insert", batch(range(40), 1, partitions=2))
    table.write("upsert", batch(range(0, 40, 2), 2, partitions=2))
    rows: pa.Table = table.lake().to_arrow(["id", "v"], pc.field("v") == 2)
    assert rows["v"].to_pylist() == [2] * 20
    table.forget()
