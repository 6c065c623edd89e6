"""Merging against a model: a dictionary of rows, merged one by one in plain Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.hudi.table.markers import MarkerKind
from tideline.hudi.table.properties import MergeMode
from tideline.testing.handle_case import HandleCase

SCHEMA = pa.schema(
    [("id", pa.string()), ("a", pa.int32()), ("b", pa.string()), ("tags", pa.list_(pa.string()))]
)
Row = dict[str, Any]

ids = st.sampled_from([f"k{number}" for number in range(12)] + ["é", "😀"])
row_values: st.SearchStrategy[Row] = st.fixed_dictionaries(
    {
        "id": ids,
        "a": st.none() | st.integers(0, 3),
        "b": st.none() | st.sampled_from(["x", "y", "z"]),
        "tags": st.none() | st.lists(st.none() | st.sampled_from(["p", "q"]), max_size=2),
    }
)
stored_rows = st.lists(row_values, max_size=15, unique_by=lambda row: row["id"])
incoming_rows = st.lists(st.tuples(row_values, st.booleans()), max_size=15)


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def wins(incoming: Row, stored: Row) -> bool:
    """Event time over (a, b): unless lower in the first field that differs; null decides."""
    for name in ("a", "b"):
        new, old = incoming[name], stored[name]
        if new is None or old is None or new > old:
            return True
        if new < old:
            return False
    return True


def merged(stored: list[Row], incoming: list[tuple[Row, bool]], by_event_time: bool) -> list[Row]:
    last: dict[str, tuple[Row, bool]] = {}
    for row, deletes in incoming:
        last.pop(row["id"], None)
        last[row["id"]] = (row, deletes)
    result = []
    for row in stored:
        new, deletes = last.pop(row["id"], (row, False))
        if by_event_time and not wins(new, row):
            result.append(row)
        elif not deletes:
            result.append(new)
    return result + [row for row, deletes in last.values() if not deletes]


@settings(deadline=None, max_examples=80)
@given(stored_rows, st.lists(incoming_rows, min_size=1, max_size=3), st.booleans())
def test_any_sequence_of_merges_gives_the_model_s_rows(
    stored: list[Row], writes: list[list[tuple[Row, bool]]], by_event_time: bool
) -> None:
    mode = MergeMode.EVENT_TIME_ORDERING if by_event_time else MergeMode.COMMIT_TIME_ORDERING
    case = HandleCase.of(SCHEMA, merge_mode=mode, ordering_fields=("a", "b"))
    # The row that is deleted at once makes a file even where `stored` is empty.
    first = [*stored, {"id": "none", "a": None, "b": None, "tags": None}]
    (stat,) = case.create(table(first), deletes=[False] * len(stored) + [True])
    expected = stored
    for incoming in writes:
        before = expected
        expected = merged(expected, incoming, by_event_time)
        stat = case.merge(
            stat,
            table([row for row, _ in incoming]),
            deletes=[deletes for _, deletes in incoming],
        )
        case.check(stat, MarkerKind.MERGE)
        assert case.rows(stat) == expected
        assert stat.num_writes == len(expected)
        known = {row["id"] for row in before}
        assert stat.num_inserts == len([row for row in expected if row["id"] not in known])
        assert len(before) + stat.num_inserts - len(expected) == len(
            known - {row["id"] for row in expected}
        )


@settings(deadline=None, max_examples=40)
@given(stored_rows.filter(bool), incoming_rows)
def test_a_row_has_the_commit_time_of_the_write_that_last_changed_it(
    stored: list[Row], incoming: list[tuple[Row, bool]]
) -> None:
    case = HandleCase.of(SCHEMA)
    (stat,) = case.create(table(stored))
    first = str(case.ctx.instant)
    stat = case.merge(
        stat, table([row for row, _ in incoming]), deletes=[deletes for _, deletes in incoming]
    )
    touched = {row["id"] for row, _ in incoming}
    for row in case.read(stat).to_pylist():
        expected = str(case.ctx.instant) if row["id"] in touched else first
        assert row["_hoodie_commit_time"] == expected
        assert row["_hoodie_record_key"] == row["id"]
