"""A LakeTable declares where its record keys are unique; operations carry that as the index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.index.uniqueness import described
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.lake_table import LakeTable
from tideline_operator.decide.planned_operation import create_operation
from tideline_operator.decide.planner import plan
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
    # It is passed for a table that exists, too; without it an operation keeps its id.
    is_kept = spec.get("uniqueness") == "Table"
    assert start.operation.table.unique_in_table is is_kept
    content = start.operation.to_json_object()
    assert ("uniqueInTable" in content["table"]) is is_kept
    assert Operation.from_json_object(content) == start.operation


def test_a_table_is_created_with_the_index_that_makes_its_keys_unique(tmp_path: Path) -> None:
    declared = resolved(uniqueness="Table")
    operation = create_operation(replace(declared, location=Location(f"{tmp_path}/table")))
    execute_operation(operation, session_factory=lambda _: pytest.fail("needs no Spark"))
    table = LakeTable.open(f"{tmp_path}/table").hoodie_table
    assert table.config.index_type == "GLOBAL_SIMPLE"
    assert described(table) == "unique in the whole table (tideline.index.type=GLOBAL_SIMPLE)"
