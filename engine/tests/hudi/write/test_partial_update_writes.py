"""Writes to tables with partial updates: rows are filled up as when they are read.

That Hudi writes the same rows: engine/tests/interop/test_partial_update_writes_with_hudi.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError
from tideline.hudi.file_group.handle_context import IS_DELETE, RECORD_KEY
from tideline.hudi.file_group.row_fold import RowFold
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.table.table_config import TableType
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import merged_rows, open_fresh

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64()),
                    ("n", pa.int64()), ("text", pa.string())])  # fmt: skip
NULLS = PartialUpdates(PartialUpdateMode.IGNORE_DEFAULTS)
BOTH_TYPES = pytest.mark.parametrize("table_type", list(TableType), ids=str)
Values = tuple[str, int, int | None, str | None]


def rows(*values: Values) -> pa.Table:
    columns = zip(*((key, "p", *rest) for key, *rest in values), strict=True)
    kinds = zip(columns, SCHEMA.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in kinds], schema=SCHEMA)


def made(
    table_type: TableType,
    *,
    ordering: Sequence[str] = ("v",),
    marker: str | None = None,
    **properties: str,
) -> SmallTable:
    """A table whose small files take no inserts, so that updates of a MERGE_ON_READ one are logs.

    Nulls are filled up unless there is a `marker`.
    """
    mode = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    if marker is not None:
        mode = {
            "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
            "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": marker,
        }
    return SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0", **mode, **properties},
        table_type=table_type,
        ordering=ordering,
        table_version=9,
    )


def stored(table: SmallTable) -> list[Values]:
    found = merged_rows(open_fresh(table.location)).select(["id", "v", "n", "text"]).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


def commit_times(table: SmallTable) -> dict[str, str]:
    found = merged_rows(open_fresh(table.location)).to_pylist()
    return {row["id"]: row["_hoodie_commit_time"] for row in found}


@BOTH_TYPES
def test_by_event_time_whichever_wins_is_filled_up_from_the_other(table_type: TableType) -> None:
    table = made(table_type)
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, None, "kept"), ("c", 5, 2, None)))
    table.write("upsert", rows(("a", 6, None, "two"), ("b", 4, 7, "older"), ("c", 5, None, "x")))
    table.write("upsert", rows(("a", 7, 3, None), ("d", 1, None, None)))
    assert stored(table) == [
        ("a", 7, 3, "two"), ("b", 5, 7, "kept"), ("c", 5, 2, "x"), ("d", 1, None, None),
    ]  # fmt: skip


@BOTH_TYPES
def test_by_commit_time_the_later_row_is_filled_up(table_type: TableType) -> None:
    table = made(table_type, ordering=())
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, None, "kept")))
    table.write("upsert", rows(("a", 4, None, None), ("b", 4, None, "new")))
    assert stored(table) == [("a", 4, 1, "one"), ("b", 4, None, "new")]


@BOTH_TYPES
def test_a_marker_is_filled_up_and_a_null_is_not(table_type: TableType) -> None:
    table = made(table_type, marker="?")
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, 1, "?"), ("c", 5, 1, "?")))
    table.write("upsert", rows(("a", 6, None, "?"), ("b", 4, 2, "older"), ("c", 6, 2, "?")))
    assert stored(table) == [("a", 6, None, "one"), ("b", 5, 1, "older"), ("c", 6, 2, "?")]
    table.write("upsert", rows(("a", 7, None, None)))
    assert stored(table)[0] == ("a", 7, None, None)


@BOTH_TYPES
def test_rows_of_one_key_in_a_batch_are_merged_as_they_came(table_type: TableType) -> None:
    """Hudi gives the same: n is from the row that came first, not from the one next in order."""
    table = made(table_type)
    table.write("upsert", rows(("b", 1, 9, "stored")))
    table.write(
        "upsert",
        rows(("a", 5, 1, None), ("b", 2, None, None), ("a", 7, None, "t7"), ("a", 6, 2, None),
             ("b", 3, None, "b3")),
    )  # fmt: skip
    assert stored(table) == [("a", 7, 1, "t7"), ("b", 3, 9, "b3")]


@BOTH_TYPES
def test_rows_that_are_not_combined_first_fill_each_other_up_all_the_same(
    table_type: TableType,
) -> None:
    table = made(table_type, **{"hoodie.combine.before.upsert": "false"})
    table.write("upsert", rows(("a", 1, 9, "stored")))
    table.write("upsert", rows(("a", 2, 5, None), ("a", 3, None, "a3")))
    assert stored(table) == [("a", 3, 5, "a3")]


@BOTH_TYPES
def test_a_delete_leaves_nothing_to_fill_up_from(table_type: TableType) -> None:
    table = made(table_type)
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, 1, "one")))
    table.write("delete", rows(("a", 6, None, None)))
    assert stored(table) == [("b", 5, 1, "one")]
    if table_type is TableType.COPY_ON_WRITE:
        table.write("upsert", rows(("a", 7, None, None)))
        assert stored(table) == [("a", 7, None, None), ("b", 5, 1, "one")]


def test_a_stored_row_that_gains_a_value_is_of_the_new_commit() -> None:
    table = made(TableType.COPY_ON_WRITE)
    table.write("insert", rows(("a", 5, None, "one"), ("b", 5, None, "one"), ("c", 5, 1, "one")))
    first = commit_times(table)
    table.write("upsert", rows(("a", 4, 2, "older"), ("b", 4, None, "older"), ("c", 4, 2, "x")))
    second = commit_times(table)
    assert {key for key in first if first[key] != second[key]} == {"a"}


@BOTH_TYPES
def test_an_insert_stores_rows_again_unless_it_may_not(table_type: TableType) -> None:
    table = made(table_type, **{"hoodie.parquet.small.file.limit": "1000000"})
    table.write("insert", rows(("a", 5, 1, "one")))
    table.write("insert", rows(("a", 6, None, "again")))
    assert stored(table) == [("a", 5, 1, "one"), ("a", 6, None, "again")]
    merging = made(
        table_type,
        **{
            "hoodie.parquet.small.file.limit": "1000000",
            "hoodie.merge.allow.duplicate.on.inserts": "false",
        },
    )
    merging.write("insert", rows(("a", 5, 1, "one")))
    merging.write("insert", rows(("a", 6, None, "again"), ("b", 6, None, "new")))
    assert stored(merging) == [("a", 6, 1, "again"), ("b", 6, None, "new")]


@BOTH_TYPES
def test_an_overwrite_keeps_nothing_of_what_it_replaces(table_type: TableType) -> None:
    table = made(table_type, **{"hoodie.combine.before.insert": "true"})
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, 1, "one")))
    table.write("insert_overwrite", rows(("a", 6, None, "new"), ("a", 7, None, None)))
    assert stored(table) == [("a", 7, None, "new")]
    table.write("bulk_insert", rows(("c", 5, None, "bulk")))
    assert stored(table) == [("a", 7, None, "new"), ("c", 5, None, "bulk")]


@pytest.mark.parametrize("marker", [None, "?"])
def test_logs_read_alike_before_and_after_they_are_compacted(marker: str | None) -> None:
    lacks = marker
    table = made(TableType.MERGE_ON_READ, marker=marker)
    table.write("insert", rows(("a", 5, 1, "one"), ("b", 5, 1, lacks), ("c", 5, 1, "c")))
    table.write("upsert", rows(("a", 6, 2, lacks), ("b", 4, 2, "older"), ("c", 6, 2, lacks)))
    table.write("upsert", rows(("a", 7, 3, lacks), ("b", 6, None, lacks)))
    table.write("delete", rows(("c", 6, None, None)))
    expected = stored(table)
    assert expected[0] == ("a", 7, 3, "one") and len(expected) == 2
    services = local_services(table, dict(LOG_COMPACTION.whenever_asked))
    services.run(LOG_COMPACTION)
    timeline = open_fresh(table.location).timeline()
    assert [str(instant.action) for instant in timeline.completed().instants][-1] == "deltacommit"
    assert stored(table) == expected
    table.write("upsert", rows(("a", 8, 4, lacks), ("b", 7, 4, lacks)))
    expected = stored(table)
    assert expected == [("a", 8, 4, "one"), ("b", 7, 4, "older")]
    local_services(table, dict(COMPACTION.whenever_asked)).run(COMPACTION)
    assert stored(table) == expected


def test_columns_to_update_are_not_named_in_addition() -> None:
    table = made(TableType.COPY_ON_WRITE)
    with pytest.raises(ConfigError, match="filled up"):
        table.write(
            "upsert",
            rows(("a", 6, 1, "one")),
            options={"tideline.write.partial.update.columns": "n"},
        )


BATCH = pa.schema([(RECORD_KEY, pa.string()), (IS_DELETE, pa.bool_()), ("v", pa.int64()),
                   ("n", pa.int64()), ("text", pa.string()), ("kept", pa.string())])  # fmt: skip
Entry = dict[str, Any]


def folded_one_by_one(entries: Sequence[Entry]) -> list[Entry]:
    """What a row at a time gives."""
    left: dict[str, Entry] = {}
    for entry in entries:
        older = left.get(entry[RECORD_KEY])
        if older is None:
            left[entry[RECORD_KEY]] = entry
            continue
        undecided = entry["v"] is None or older["v"] is None
        natural = any(item[IS_DELETE] and item["v"] is None for item in (entry, older))
        wins = natural or undecided or entry["v"] >= older["v"]
        winner, other = (entry, older) if wins else (older, entry)
        if not (entry[IS_DELETE] or older[IS_DELETE]):
            taken = {name: other[name] for name in ("n", "text") if winner[name] is None}
            winner = {**winner, **taken}
        left[entry[RECORD_KEY]] = winner
    return [left[key] for key in sorted(left)]


ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            RECORD_KEY: st.sampled_from("abc"),
            IS_DELETE: st.sampled_from([False, False, False, True]),
            "v": st.none() | st.integers(1, 3),
            "n": st.none() | st.integers(0, 9),
            "text": st.none() | st.sampled_from(["x", "y"]),
            "kept": st.none() | st.sampled_from(["k", "l"]),
        }
    ),
    min_size=1,
    max_size=12,
)


def in_batches(table: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=size)


@given(ENTRIES, st.integers(1, 4))
def test_rows_are_folded_as_one_by_one(entries: list[Entry], size: int) -> None:
    fold = RowFold(NULLS, ("n", "text"), ("v",))
    arranged = sorted(entries, key=lambda entry: str(entry[RECORD_KEY]))
    table = pa.Table.from_pylist(arranged, schema=BATCH).combine_chunks()
    found = pa.Table.from_batches(fold.fold_sorted(in_batches(table, size)), schema=BATCH)
    assert found.to_pylist() == folded_one_by_one(arranged)
