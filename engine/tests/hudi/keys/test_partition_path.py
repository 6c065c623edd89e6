"""Partition paths that a table can hold, and those it cannot."""

from __future__ import annotations

import pytest

from tideline.errors import InvalidDataError
from tideline.hudi.keys.partition_path import check_new_partition, check_partition_paths
from tideline.hudi.table.partition_metadata import write_partition_metadata
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.memory.store import MemoryStore

INSTANT = InstantTime("20250101000000000")


@pytest.mark.parametrize(
    "path",
    ["", "a", "day=1", "2024/01/05", "a b", "ü 😀", "a:b=%2F", "..a", ".x", "hoodie", "a/ b"],
)
def test_ordinary_paths_pass(path: str) -> None:
    check_partition_paths([path], table="t")


@pytest.mark.parametrize(
    "path",
    ["/a", "a/", "a//b", ".", "..", "a/../b", "./a", ".hoodie", "a/.hoodie/b",
     ".hoodie_partition_metadata", "a\nb", "a\0", "\x7f"],
)  # fmt: skip
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(InvalidDataError, match="makes no path inside the table") as caught:
        check_partition_paths(["fine", path], table="t")
    assert (caught.value.table, caught.value.value) == ("t", ascii(path))


@pytest.mark.parametrize(
    ("paths", "inner"),
    [(["a", "a/b"], "a/b"), (["a/b/c", "x", "a"], "a/b/c"), (["a-", "a", "a/b"], "a/b")],
)
def test_a_partition_inside_another_is_refused(paths: list[str], inner: str) -> None:
    with pytest.raises(InvalidDataError, match=f"partition '{inner}' lies inside partition 'a'"):
        check_partition_paths(paths, table="t")
    check_partition_paths(["a", "a-/b", "ab", "b/a", "", "a.b/c"], table="t")


def test_a_new_partition_may_not_enclose_or_lie_in_one_of_the_table() -> None:
    store = MemoryStore("partition-path")
    try:
        for path in ("north", "2024/01", ""):
            write_partition_metadata(store, path, INSTANT)
        store.put("other/file.parquet", b"")
        for fine in ("north", "2024/02", "northern", "2024/01", "", "other"):
            check_new_partition(store, fine)
        for inner, outer, made in [
            ("north/pole/1", "north", "north/pole/1"),
            ("2024/01", "2024", "2024"),
        ]:
            with pytest.raises(
                InvalidDataError, match=f"'{inner}' lies inside partition '{outer}'"
            ):
                check_new_partition(store, made)
    finally:
        MemoryStore.forget("partition-path")
