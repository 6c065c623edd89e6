"""A table that is created for change events keeps values that these do not have, if it can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.hudi.table.table_config import PARTIAL_UPDATE_MODE, UNAVAILABLE_PROPERTY
from tideline.ingest.operation.operation import TableTarget
from tideline_operator.decide.planned_operation import savepoint_operation
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.testing.table_states import resolved

TOPIC = {"format": "kafka", "brokers": "broker:9092", "topics": ["orders"]}


def target(value: str, **spec: Any) -> TableTarget:
    named = {"table": "shop.orders"} if value in ("maxwell-json", "canal-json") else {}
    ingest = [{"name": "orders", "source": TOPIC | {"value": value} | named}]
    content = {"location": "table", "recordKey": ["id"], "ingest": ingest, **spec}
    resource = parse_stored(LakeTable, {"metadata": {"name": "orders"}, "spec": content})
    assert resource is not None
    table = replace(resolved(ingest=[]), resource=resource)
    return savepoint_operation(table, "kept", "1").table


@pytest.mark.parametrize(
    ("value", "version", "mode"),
    [
        ("debezium-json", 9, "FILL_UNAVAILABLE"),
        ("debezium-json", 8, None),
        ("json", 9, None),
        ("maxwell-json", 9, None),
        ("canal-json", 9, None),
    ],
)
def test_only_tables_of_version_9_fill_rows_up(value: str, version: int, mode: str | None) -> None:
    properties = target(value, tableVersion=version).creation_properties
    assert properties.get(PARTIAL_UPDATE_MODE) == mode
    marker = properties.get(UNAVAILABLE_PROPERTY)
    assert marker == (None if mode is None else "__debezium_unavailable_value")


def test_what_the_spec_says_itself_stays() -> None:
    given = {PARTIAL_UPDATE_MODE: "IGNORE_DEFAULTS"}
    properties = target("debezium-json", tableVersion=9, properties=given).creation_properties
    assert properties[PARTIAL_UPDATE_MODE] == "IGNORE_DEFAULTS"
    assert UNAVAILABLE_PROPERTY not in properties
