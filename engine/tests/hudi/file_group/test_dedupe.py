"""One row per key, in batches sorted by key: the last one stays."""

from __future__ import annotations

from itertools import groupby, pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.file_group.dedupe import keep_last_of_key

SCHEMA = pa.schema([("_hoodie_record_key", pa.string()), ("n", pa.int64())])


def batches(*parts: list[str]) -> list[pa.RecordBatch]:
    """Batches with these keys; `n` numbers the rows."""
    made, number = [], 0
    for keys in parts:
        numbers = list(range(number, number + len(keys)))
        made.append(pa.record_batch([pa.array(keys, pa.string()), numbers], schema=SCHEMA))
        number += len(keys)
    return made


def kept(*parts: list[str]) -> list[tuple[str, int]]:
    found = list(keep_last_of_key(batches(*parts)))
    return [(row["_hoodie_record_key"], row["n"]) for batch in found for row in batch.to_pylist()]


def test_of_equal_keys_the_last_row_stays() -> None:
    assert kept(["a", "a", "b", "c", "c", "c"]) == [("a", 1), ("b", 2), ("c", 5)]


def test_a_key_may_go_on_in_later_batches() -> None:
    assert kept(["a", "b"], ["b"], [], ["b", "c"], ["d"]) == [
        ("a", 0), ("b", 3), ("c", 4), ("d", 5),
    ]  # fmt: skip
    assert kept(["a"], ["a"], ["a"]) == [("a", 2)]
    assert kept() == kept([], []) == []


def test_a_batch_without_duplicates_is_passed_on_whole() -> None:
    (batch,) = batches(["a", "b", "c"])
    first, last = keep_last_of_key([batch])
    assert first.num_rows == 2 and last.num_rows == 1
    assert first.column(0).buffers()[2].address == batch.column(0).buffers()[2].address


def test_another_column_may_hold_the_key() -> None:
    numbers = pa.record_batch({"id": ["a", "b", "b"], "n": [3, 1, 2]})
    rows = [row["n"] for part in keep_last_of_key([numbers], "id") for row in part.to_pylist()]
    assert rows == [3, 2]


@given(st.lists(st.sampled_from("abcdé😀"), max_size=30), st.lists(st.integers(0, 30), max_size=6))
def test_any_cut_into_batches_gives_the_same_rows(keys: list[str], cuts: list[int]) -> None:
    ordered = sorted(keys)
    edges = sorted({0, len(ordered), *[cut for cut in cuts if cut < len(ordered)]})
    parts = [ordered[a:b] for a, b in pairwise(edges)]
    expected = [(key, list(run)[-1][1]) for key, run in groupby(
        zip(ordered, range(len(ordered)), strict=True), key=lambda pair: pair[0])]  # fmt: skip
    assert kept(*parts) == expected
