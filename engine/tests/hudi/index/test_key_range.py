"""Key ranges in Java's string order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline.hudi.index.key_range import KeyRange, java_order, key_range

LATE = "\uff5e"  # a character from U+E000 on: after an emoji in UTF-8, before it in Java
EMOJI = "😀"


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1))
def test_range_is_the_extremes_in_java_order(keys: list[str]) -> None:
    found = key_range(pa.array(keys, pa.string()))
    assert found == KeyRange(min(keys, key=java_order), max(keys, key=java_order))


def test_java_puts_emoji_before_late_characters() -> None:
    assert LATE < EMOJI
    assert java_order(EMOJI) < java_order(LATE)
    assert key_range(pa.array([EMOJI, LATE])) == KeyRange(EMOJI, LATE)


def test_slices_and_chunks_count_only_their_own_keys() -> None:
    keys = pa.array(["zz" + EMOJI, "b", "c", LATE])
    assert key_range(keys.slice(1, 2)) == KeyRange("b", "c")
    chunks = pa.chunked_array([["b"], ["a", None], [LATE], [EMOJI]], pa.string())
    assert key_range(chunks) == KeyRange("a", LATE)


@pytest.mark.parametrize("keys", [[], [None, None]])
def test_no_keys_have_no_range(keys: list[str | None]) -> None:
    assert key_range(pa.array(keys, pa.string())) is None


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_union_is_the_range_of_all_keys(left: list[str], right: list[str]) -> None:
    ranges = [key_range(pa.array(keys, pa.string())) for keys in (left, right)]
    both = key_range(pa.array(left + right, pa.string()))
    assert ranges[0] is not None
    assert ranges[0].union(ranges[1]) == both
    assert ranges[0].union(None) == ranges[0]


@settings(deadline=None)
@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_ranges_that_share_a_key_overlap(left: list[str], right: list[str]) -> None:
    first, second = (key_range(pa.array(keys, pa.string())) for keys in (left, left + right))
    assert first is not None
    assert second is not None
    assert first.overlaps(second)
    assert second.overlaps(first)


def test_ranges_apart_do_not_overlap() -> None:
    assert not KeyRange("a", "c").overlaps(KeyRange("d", "e"))
    assert not KeyRange("d", "e").overlaps(KeyRange("a", "c"))
    assert KeyRange("a", "c").overlaps(KeyRange("c", "d"))
    assert not KeyRange("a", EMOJI).overlaps(KeyRange(LATE, LATE))
