"""Which keys a stored file may have: by bounds, however the keys are ordered."""

from __future__ import annotations

import random
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tideline.hudi.file_group.wanted_keys import WantedKeys, key_bounds, united_bounds
from tideline.hudi.table.meta_column import RECORD_KEY

MANY = 1_000
KEYS = ["b", "a", "é", "\ue000", "😀", "b", "", "k10", "k9", "zz"]


def wanted(keys: list[str], lookups: int) -> WantedKeys:
    return WantedKeys.of(pa.array(keys), pa.array([f"p{n}" for n in range(len(keys))]), lookups)


def metadata(table: pa.Table, rows: int = 1_000, **options: object) -> pq.FileMetaData:
    body = BytesIO()
    pq.write_table(table, body, row_group_size=rows, **options)
    body.seek(0)
    return pq.read_metadata(body)


def keys_of(*keys: str | None) -> pa.Table:
    return pa.table({RECORD_KEY: pa.array(keys, pa.string())})


@pytest.mark.parametrize("lookups", [1, MANY])
def test_keys_between_bounds_are_never_left_out(lookups: int) -> None:
    asked = wanted(KEYS, lookups)
    pick = random.Random(39)
    for _ in range(200):
        least, greatest = sorted((pick.choice(KEYS), pick.choice(KEYS)))
        expected = [key for key in KEYS if least <= key <= greatest]
        own = asked.within((least, greatest))
        assert set(expected) <= set(own.keys.to_pylist())
        assert asked.has_any((least, greatest)) and own.has_any(None)
        if lookups == MANY:
            assert sorted(expected) == own.keys.to_pylist()
    assert asked.within(None) is asked
    assert not asked.has_any(("c", "d")) and not asked.none().has_any(None)


def test_of_equal_keys_the_first_stays_the_first() -> None:
    own = wanted(KEYS, MANY).within(("b", "b"))
    assert own.partitions.to_pylist() == ["p0", "p5"]


def test_keys_stay_with_the_partitions_that_they_came_with() -> None:
    for lookups in (1, MANY):
        own = wanted(KEYS, lookups).within(("a", "k10"))
        flags = pa.array([key != "b" for key in own.keys.to_pylist()])
        left = own.filtered(flags)
        pairs = zip(left.keys.to_pylist(), left.partitions.to_pylist(), strict=True)
        assert {KEYS[int(path[1:])] == key for key, path in pairs} == {True}
        assert "b" not in left.keys.to_pylist() and "a" in left.keys.to_pylist()


def test_bounds_are_those_of_each_row_group() -> None:
    found = key_bounds(metadata(keys_of("a", "c", "é", "😀", "\ue000", None), rows=2))
    assert found == [("a", "c"), ("é", "😀"), ("\ue000", "\ue000")]
    assert united_bounds(found) == ("a", "😀")


def test_bounds_that_are_not_known_leave_nothing_out() -> None:
    unknown = [
        metadata(keys_of("a"), write_statistics=False),
        metadata(pa.table({"id": ["a"]})),
        metadata(keys_of(None)),
        metadata(pa.table({RECORD_KEY: pa.array([b"a\xff"])})),
        metadata(pa.table({"s": pa.array([{RECORD_KEY: "a"}])})),
    ]
    for footer in unknown:
        assert key_bounds(footer) == [None]
    assert united_bounds([("a", "b"), None]) is None
    assert united_bounds([]) is None
    assert wanted(KEYS, MANY).has_any(None)


def test_keys_stay_with_their_places_in_the_batch() -> None:
    partitions, rows = pa.array([""] * len(KEYS)), pa.array(range(len(KEYS)))
    for lookups in (1, MANY):
        asked = WantedKeys.of(pa.array(KEYS), partitions, lookups, rows).within(("a", "k10"))
        left = asked.filtered(pa.array([key != "b" for key in asked.keys.to_pylist()]))
        assert left.rows is not None
        assert [KEYS[row] for row in left.rows.to_pylist()] == left.keys.to_pylist()
        assert asked.none().rows == pa.array([], pa.int64())
