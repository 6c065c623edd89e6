"""Row groups that a condition rules out are not read, and no row it selects is left out."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.formats.parquet_rows import ParquetRows
from tideline.formats.row_filter import RowFilter

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("real", pa.float64()),
        ("day", pa.date32()),
    ]
)
NAN = float("nan")
FIXED = pa.table(
    [
        [1, 2, 3, 4, 5, 6, None, None, 9],
        [1, 1, 1, 2, 2, 2, None, None, None],
        ["a", "b", "é", "日", "日本", None, "a", "a", "zz"],
        [True, True, True, False, False, False, None, True, False],
        [1.0, NAN, 2.0, 3.0, 4.0, 5.0, None, NAN, 1.0],
        pa.array([1, 2, 3, 4, 5, 6, 7, 8, None], pa.date32()),
    ],
    schema=SCHEMA,
)


def read(table: pa.Table, condition: pc.Expression, schema: pa.Schema = SCHEMA) -> pa.Table:
    """The rows of a file of row groups of three rows that a reader with the condition reads."""
    body = io.BytesIO()
    pq.write_table(table, body, row_group_size=3, store_schema=False)
    rows = ParquetRows(
        body,
        path="f",
        pre_buffer=False,
        keeps_dictionaries=False,
        row_filter=RowFilter.of(condition, schema),
    )
    batches = list(rows.batches(table.schema.names))
    return pa.Table.from_batches(batches, table.schema)


@pytest.mark.parametrize(
    ("condition", "groups"),
    [
        (pc.field("n") > 3, {1, 2}),
        (pc.field("n").is_null(), {2}),
        (pc.field("small") == 1, {0}),
        (pc.field("small").is_null(), {2}),
        (pc.field("text") >= "日", {1}),
        (pc.field("flag") == False, {1, 2}),  # noqa: E712
        ((pc.field("n") < 4) & (pc.field("text") > "zz"), {0}),
        # Nulls do not meet it.
        (pc.field("n") > 100, set()),
        (pc.field("n") < 0, set()),
        (~(pc.field("n") > 3), {0}),
        (pc.field("real") > 100, {0, 1, 2}),
        (pc.field("day") > pa.scalar(100, pa.date32()), {0, 1, 2}),
    ],
)
def test_groups_that_statistics_rule_out_are_not_read(
    condition: pc.Expression, groups: set[int]
) -> None:
    kept = read(FIXED, condition)
    expected = pa.concat_tables(
        [FIXED.slice(3 * group, 3) for group in sorted(groups)] or [FIXED[:0]]
    )
    assert kept.drop("real").equals(expected.drop("real"))


def test_a_column_of_another_type_in_the_file_says_nothing() -> None:
    table = pa.table({"n": pa.array([1, 2, 3, 4], pa.int32())})
    wanted = pa.schema([("n", pa.int64())])
    assert read(table, pc.field("n") > 3, wanted).num_rows == 4


@pytest.mark.parametrize("other", ["b", None])
def test_text_too_long_for_statistics_is_found(other: str | None) -> None:
    long = "a" * 5000
    table = pa.table({"text": [long, other]}, pa.schema([("text", pa.string())]))
    assert read(table, pc.field("text") == long, table.schema)["text"].to_pylist() == [long, other]


@pytest.mark.parametrize("order", [("a.b", "a"), ("a", "a.b")])
def test_a_name_with_a_dot_is_no_part_of_a_struct(order: tuple[str, str]) -> None:
    columns = {"a": pa.array([{"b": 1}]), "a.b": pa.array([9])}
    table = pa.table({name: columns[name] for name in order})
    assert read(table, pc.field("a.b") == 9, table.schema).num_rows == 1
    assert read(table, pc.field("a.b") == 1, table.schema).num_rows == 0


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from(["", "a", "b", "é", "日", "𝄞"]),
        st.none() | st.booleans(),
        st.none() | st.sampled_from([NAN, 0.0, -0.0, 1.5]),
        st.none() | st.integers(0, 3),
    ),
    max_size=12,
)
LEAVES = st.one_of(
    st.builds(lambda n: pc.field("n") > n, st.integers(-3, 3)),
    st.builds(lambda n: pc.field("small") <= n, st.integers(-3, 3)),
    st.builds(lambda n: pc.field("n") == n, st.integers(-3, 3)),
    st.builds(lambda n: pc.field("n").isin(n), st.lists(st.integers(-3, 3), max_size=3)),
    st.builds(lambda t: pc.field("text") < t, st.sampled_from(["a", "é", "日"])),
    st.builds(lambda name: pc.field(name).is_null(), st.sampled_from(SCHEMA.names)),
    st.builds(lambda n: pc.field("real") > n, st.sampled_from([0.0, 1.0])),
    st.just(pc.field("flag")),
    st.just(pc.field("n") > pc.field("small")),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        st.builds(lambda a: ~a, inner),
    ),
    max_leaves=4,
)


@given(rows=ROWS, condition=CONDITIONS)
def test_no_row_that_is_selected_is_left_out(
    rows: list[tuple[object, ...]], condition: pc.Expression
) -> None:
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(list(pair), kind) for pair, kind in zip(columns, SCHEMA.types, strict=True)]
    table = pa.table(arrays, schema=SCHEMA)
    wanted = table.filter(condition)
    found = read(table, condition).filter(condition)
    assert found.drop("real").equals(wanted.drop("real"))
