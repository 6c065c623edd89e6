"""A LakeTable says where its record keys are unique; operations carry that as the index."""

from __future__ import annotations

from typing import Any

import pytest

from tideline_operator.planner import plan
from tideline_operator.testing.table_states import EMPTY, FILES, NOW_MS, resolved, seen, starts

INDEX = "hoodie.index.type"


@pytest.mark.parametrize(
    ("spec", "index"),
    [
        ({}, None),
        ({"uniqueness": "Partition"}, None),
        ({"uniqueness": "Partition", "index": {"type": "BLOOM"}}, "BLOOM"),
        ({"uniqueness": "Table"}, "GLOBAL_SIMPLE"),
        ({"uniqueness": "Table", "index": {"type": "SIMPLE"}}, "GLOBAL_SIMPLE"),
        ({"uniqueness": "Table", "index": {"type": "BLOOM"}}, "GLOBAL_BLOOM"),
        ({"uniqueness": "Table", "index": {"type": "GLOBAL_BLOOM"}}, "GLOBAL_BLOOM"),
    ],
)
def test_uniqueness_chooses_the_index_of_every_write(
    spec: dict[str, Any], index: str | None
) -> None:
    (start, *_) = starts(plan(resolved(**spec), EMPTY, seen(*FILES), NOW_MS))
    assert start.operation.table.write_properties.get(INDEX) == index
    assert start.operation.table.creation_properties.get(INDEX) == index
