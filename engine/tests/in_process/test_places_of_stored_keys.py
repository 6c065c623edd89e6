"""Upserts whose rows go to a base file with the places of their keys in it, and those without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from tideline.hudi.file_group import merge_handle
from tideline.lake_table import LakeTable

ROWS = 500


def rows(numbers: list[int], v: int, day: Callable[[int], str] = lambda _: "a") -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number}" for number in numbers],
            "day": [day(number) for number in numbers],
            "ts": pa.array([v] * len(numbers), pa.int64()),
            "v": pa.array([v] * len(numbers), pa.int64()),
        }
    )


def table(table_type: str, **settings: Any) -> LakeTable:
    return LakeTable.create(
        f"memory://{uuid4().hex}",
        name="t",
        record_key="id",
        ordering="ts",
        schema=rows([0], 0).schema,
        table_type=table_type,
        **settings,
    )


def values(lake: LakeTable) -> list[tuple[str, int]]:
    found = lake.to_arrow().select(["id", "v"]).to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


@pytest.mark.parametrize(
    ("table_type", "partition_by"), [("COPY_ON_WRITE", ("day",)), ("MERGE_ON_READ", ())]
)
def test_keys_are_looked_up_once(
    table_type: str, partition_by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = table(table_type, partition_by=partition_by)

    def day(number: int) -> str:
        return "ab"[number % 2]

    lake.write(rows(list(range(ROWS)), 1, day), "upsert")
    monkeypatch.delattr(merge_handle, "find_matches")
    changed = [*range(100, 700), 150, 699]
    incoming = rows(changed, 3, day)
    later = incoming.set_column(3, "v", pa.array([*[3] * 600, 4, 5], pa.int64()))
    lake.write(later, "upsert")
    expected = dict.fromkeys(range(ROWS), 1) | dict.fromkeys(range(100, 700), 3)
    expected |= {150: 4, 699: 5}
    assert values(lake) == sorted((f"k{number}", v) for number, v in expected.items())
    # An older row changes nothing, a delete removes its row.
    lake.write(rows([100], 2, day), "upsert")
    lake.write(rows([101], 9, day), "delete")
    del expected[101]
    assert values(lake) == sorted((f"k{number}", v) for number, v in expected.items())


def test_a_key_that_a_file_has_twice_is_updated_twice() -> None:
    lake = table("COPY_ON_WRITE")
    twice = {"hoodie.combine.before.insert": "false"}
    lake.write(rows([1, 2, 1, 3], 1), "insert", options=twice)
    assert len(values(lake)) == 4
    lake.write(rows([1, 3, 4], 2), "upsert")
    assert values(lake) == [("k1", 2), ("k1", 2), ("k2", 1), ("k3", 2), ("k4", 2)]
