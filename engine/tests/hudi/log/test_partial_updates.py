"""Rows of tables with partial updates, filled up from those they win against.

That Hudi fills them up alike: engine/tests/interop/test_partial_updates_with_hudi.py.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from tideline.hudi.log.missing_values import missing_values
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.table.table_config import TableType
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import merged_rows, open_fresh

NULLS = PartialUpdates(PartialUpdateMode.IGNORE_DEFAULTS)
MARKED = PartialUpdates(PartialUpdateMode.FILL_UNAVAILABLE, "?")
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64()),
                    ("n", pa.int64()), ("text", pa.string())])  # fmt: skip


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_what_is_missing(kind: pa.DataType) -> None:
    texts = pa.array(["a", None, "?"], pa.string()).cast(kind)
    assert missing_values(texts, NULLS).tolist() == [False, True, False]
    assert missing_values(texts, MARKED).tolist() == [False, False, True]
    assert missing_values(texts.dictionary_encode(), MARKED).tolist() == [False, False, True]
    unmarked = PartialUpdates(PartialUpdateMode.FILL_UNAVAILABLE)
    assert not missing_values(texts, unmarked).any()


def test_numbers_are_never_the_marker() -> None:
    assert not missing_values(pa.array([1, None]), MARKED).any()


def rows(*values: tuple[str, int, int | None, str | None]) -> pa.Table:
    columns = zip(*((key, "p", *rest) for key, *rest in values), strict=True)
    kinds = zip(columns, SCHEMA.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in kinds], schema=SCHEMA)


def test_stored_rows_and_logs_fill_each_other_up() -> None:
    """By event time: whichever wins takes what it lacks from the other."""
    table = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"},
        table_type=TableType.MERGE_ON_READ,
        ordering=["v"],
        table_version=9,
    )
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, None, "kept"), ("c", 5, 1, "gone")))
    table.write("upsert", rows(("a", 6, None, "two"), ("b", 4, 7, "older")))
    table.write("upsert", rows(("a", 7, 3, None)))
    table.write("delete", rows(("c", 6, None, None)))
    open_fresh(table.location).properties.update(
        {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    )
    found = merged_rows(open_fresh(table.location)).select(["id", "v", "n", "text"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("a", 7, 3, "two"),
        ("b", 5, 7, "kept"),
    ]
    table.forget()
