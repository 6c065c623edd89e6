"""Which looks at a source are full ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.ingest.sources.checkpoint import Checkpoint
from tideline.ingest.sources.files.position import TAKEN_WITHOUT_LISTING_MAX, FilesPosition
from tideline_operator.decide.triggers import look_after
from tideline_operator.testing.table_states import FILES, NOW_MS, TABLE, resolved


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({}, "from"),
        ({"full_look_ms": None}, ""),
        ({"full_look_ms": NOW_MS - 3_600_000}, ""),
        ({"source": {"namesAscend": False}}, ""),
        ({"source": {"fullLookEvery": "2h"}, "full_look_ms": NOW_MS - 3_600_000}, "from"),
        ({"trigger": {"once": True}}, ""),
        ({"taken": TAKEN_WITHOUT_LISTING_MAX}, ""),
        ({"checkpoint": False}, ""),
    ],
)
def test_which_looks_are_full_ones(changes: dict[str, Any], after: str) -> None:
    source = {"format": "csv", "path": "x", "namesAscend": True, **changes.get("source", {})}
    trigger = changes.get("trigger", {"every": "1s"})
    table = resolved(ingest=[{"name": "landing", "source": source, "trigger": trigger}])
    taken = frozenset(f"{number:016x}" for number in range(changes.get("taken", 1)))
    position = FilesPosition(FILES[-1].arrival, taken=taken)
    known = Checkpoint(1, position, look_after="from")
    has_checkpoint = changes.get("checkpoint", True)
    found = replace(TABLE, checkpoints={"landing": known} if has_checkpoint else {})
    full_look_ms = changes.get("full_look_ms", NOW_MS - 3_599_000)
    assert look_after(table.spec.ingest[0], found.checkpoints, full_look_ms, NOW_MS) == after
