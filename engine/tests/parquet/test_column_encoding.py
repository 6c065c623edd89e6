"""Which columns get a dictionary, and what stays in one; the sequence numbers of rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.hudi.file_group.meta_columns import commit_seqnos, constant_column
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.parquet.column_encoding import (
    dictionary_paths,
    leaf_columns,
    without_unused_values,
)

ROWS = 200_000
RANDOM = np.random.default_rng(3)


def is_encoded(values: pa.Array) -> bool:
    return dictionary_paths(pa.table({"c": values})) == ["c"]


@pytest.mark.parametrize(
    ("distinct", "encoded"), [(1, True), (1_000, True), (20_000, True), (150_000, False)]
)
def test_text_is_encoded_when_values_come_often(distinct: int, encoded: bool) -> None:
    picks = RANDOM.integers(0, distinct, ROWS)
    assert is_encoded(pa.array([f"value {pick}" for pick in picks])) == encoded


@pytest.mark.parametrize(("distinct", "encoded"), [(100, True), (4_000, True), (2**40, False)])
def test_numbers_are_encoded_when_indices_are_much_narrower(distinct: int, encoded: bool) -> None:
    values = RANDOM.integers(0, distinct, ROWS)
    assert is_encoded(pa.array(values)) == encoded
    if distinct <= 2**31:
        assert is_encoded(pa.array(values.astype(np.int32))) == (encoded and distinct < 4_096)


def test_few_rows_are_not_taken_for_repeating_ones() -> None:
    assert not is_encoded(pa.array([f"k{number}" for number in range(20)]))
    assert is_encoded(pa.array(["a", "b"] * 10))


def test_long_values_whose_dictionary_would_outgrow_its_page_are_not_encoded() -> None:
    pool = [("x" * 3_000) + str(number) for number in range(500)]
    values = pa.array(pool).take(pa.array(RANDOM.integers(0, 500, 10_000)))
    assert not is_encoded(values)


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.date32(), pa.decimal128(9, 2)])
def test_columns_of_nulls_and_empty_ones_are_handled(kind: pa.DataType) -> None:
    assert is_encoded(pa.nulls(10, kind))
    assert is_encoded(pa.nulls(0, kind))


def test_booleans_are_never_encoded() -> None:
    assert not is_encoded(pa.array([True] * 1000))


def test_nested_text_is_encoded_at_its_leaves() -> None:
    item = pa.struct([("s", pa.string()), ("n", pa.int32())])
    schema = pa.schema(
        [("l", pa.list_(item)), ("m", pa.map_(pa.string(), pa.list_(pa.binary()))), ("x", item)]
    )
    assert dictionary_paths(schema.empty_table()) == [
        "l.list.element.s",
        "m.key_value.key",
        "m.key_value.value.list.element",
        "x.s",
    ]
    assert [path for path, _ in leaf_columns(schema)] == [
        "l.list.element.s",
        "l.list.element.n",
        "m.key_value.key",
        "m.key_value.value.list.element",
        "x.s",
        "x.n",
    ]


chunks = st.lists(st.lists(st.none() | st.sampled_from("abcdefg"), max_size=6), max_size=4)


@settings(deadline=None)
@given(chunks, st.integers(0, 3))
def test_dictionaries_keep_just_the_values_in_use(
    parts: list[list[str | None]], skipped: int
) -> None:
    arrays = [pa.array(part, pa.string()).dictionary_encode().slice(skipped) for part in parts]
    column = pa.chunked_array(arrays, pa.dictionary(pa.int32(), pa.string()))
    tidy = without_unused_values(column)
    assert tidy.to_pylist() == column.to_pylist()
    used = {value for value in column.to_pylist() if value is not None}
    for chunk in tidy.chunks:
        assert set(chunk.dictionary.to_pylist()) == used
        assert chunk.dictionary.equals(tidy.chunk(0).dictionary)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), unique=True))
def test_sequence_numbers_are_instant_task_and_row(numbers: list[int]) -> None:
    instant = InstantTime("20250101000000000")
    found = commit_seqnos(instant, "12", np.array(sorted(numbers), dtype=np.int64))
    found.validate(full=True)
    assert found.to_pylist() == [f"{instant}_12_{number}" for number in sorted(numbers)]


def test_a_constant_column_repeats_its_value() -> None:
    assert constant_column("p", 3).to_pylist() == ["p"] * 3
    assert constant_column("p", 0).to_pylist() == []
