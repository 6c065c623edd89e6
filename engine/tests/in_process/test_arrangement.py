"""The order in which rows of a batch go to their files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.hudi.table.schema import EvolvedSchema
from tideline.in_process import routed_rows
from tideline.in_process.arrangement import arrival_within, last_of_keys
from tideline.in_process.located_keys import LocatedKeys
from tideline.in_process.prepared_rows import PreparedRows
from tideline.in_process.routed_rows import RoutedRows


@pytest.mark.parametrize("groups_max", [1, 7, 1 << 15, (1 << 15) + 1, 1 << 20])
def test_rows_of_a_group_stay_in_the_order_of_their_arrival(groups_max: int) -> None:
    groups = np.random.default_rng(7).integers(0, groups_max, 5_000)
    groups[:2] = groups_max - 1, 0
    arranged = arrival_within(groups)
    assert arranged.tolist() == sorted(range(len(groups)), key=lambda row: (groups[row], row))


def test_no_rows_have_no_order() -> None:
    assert not len(arrival_within(np.array([], np.int64)))


def batch_of(keys: list[str], ordering: list[int | None]) -> PreparedRows:
    rows = pa.record_batch({"id": keys, "ts": pa.array(ordering, pa.int64())})
    paths = pa.array([""] * len(keys)).dictionary_encode()
    return PreparedRows(EvolvedSchema(rows.schema), rows, pa.array(keys), paths)


@given(st.data(), st.sampled_from([1, 1_000_003]))
def test_the_last_of_each_key_is_left_in_each_bucket(data: st.DataObject, stride: int) -> None:
    keys = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    ordering = data.draw(
        st.lists(st.none() | st.integers(0, 2), min_size=len(keys), max_size=len(keys))
    )
    batch = batch_of([str(key) for key in keys], ordering)
    rows = np.array(data.draw(st.permutations([*range(len(keys)), *range(len(keys))])))
    buckets = np.array(
        data.draw(st.lists(st.integers(-1, 2), min_size=len(rows), max_size=len(rows)))
    )
    codes = np.array(keys)[rows] * stride
    found = last_of_keys(batch, rows, codes, buckets, ("ts",))
    best: dict[tuple[int, int], tuple[int, int]] = {}
    for entry, row in enumerate(rows.tolist()):
        known = ordering[row]
        place, value = (codes[entry], buckets[entry]), (-1 if known is None else known, row)
        best[place] = max(best.get(place, value), value)
    kept = {(codes[entry], buckets[entry]): rows[entry] for entry in np.flatnonzero(found)}
    assert kept == {place: row for place, (_, row) in best.items()}


@given(st.data())
def test_keys_in_one_place_each_are_found_as_those_in_several_are(data: st.DataObject) -> None:
    codes = np.array(data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=30)), np.int64)
    stored = data.draw(st.lists(st.integers(0, 20), unique=True, max_size=20))
    files = np.arange(len(stored)) * 7
    gone, nothing = np.zeros(len(stored), np.bool_), pa.table({})
    located = LocatedKeys(np.array(stored, np.int64), files * 0, files, gone, nothing)
    found = RoutedRows.of(codes, codes * 0, None, located)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routed_rows, "_SPARSE", 0)
        expected = RoutedRows.of(codes, codes * 0, None, located)
    for name in ("rows", "codes", "files", "homes", "found"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
