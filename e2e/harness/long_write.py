"""A first write that lasts until something has happened to it, and what must be left of it."""

from __future__ import annotations

from typing import Any

from e2e.harness.lake import Lake, some_rows

MANY = 1_000_000


def begin_to_write(lake: Lake, small: str = "InProcess", **changes: Any) -> str:
    """Land many rows for a new table, and wait until they are being written: the instant."""
    lake.land("people", "many", some_rows(MANY))
    lake.apply_table("people", engine={"small": small}, **changes)
    return lake.wait_for_inflight("people")


def assert_each_row_once(lake: Lake, lost: str | None = None) -> None:
    """All rows are there, nothing is under way, and of the lost instant there is nothing."""
    assert sorted(lake.by_id("people")) == list(range(MANY))
    assert lake.inflight("people") == []
    assert lost is None or lake.files_of("people", lost) == []
