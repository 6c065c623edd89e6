"""A LakeTable asks to be published; operations carry that to writes, services and new tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.hudi.table.table_config import (
    ICEBERG,
    PUBLISH,
    PUBLISH_CATALOG,
    PUBLISH_CATALOG_TYPE,
    PUBLISH_CATALOG_URI,
    PUBLISH_IDENTIFIER,
    SYNC,
)
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.lake_table import LakeTable
from tideline_operator.decide.planned_operation import create_operation
from tideline_operator.decide.planner import plan
from tideline_operator.decide.service_settings import service_settings
from tideline_operator.launch.driver_job import driver_job
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.testing.table_states import EMPTY, FILES, NOW_MS, resolved, seen, starts


@pytest.mark.parametrize("spec", [{"publish": ["Iceberg"]}, {"properties": {PUBLISH: ICEBERG}}])
def test_it_goes_with_every_write_and_service(spec: dict[str, Any]) -> None:
    (start, *_) = starts(plan(resolved(**spec), EMPTY, seen(*FILES), NOW_MS))
    assert start.operation.table.write_properties[PUBLISH] == ICEBERG
    assert service_settings(resolved(**spec).spec)[PUBLISH] == ICEBERG


def test_a_catalog_goes_with_them() -> None:
    catalog = {
        "type": "rest",
        "uri": "https://catalog.example/api",
        "table": "travel.flights",
        "credentials": {"secretName": "catalog"},
    }
    table = resolved(publish=["Iceberg"], catalog=catalog)
    place = {
        PUBLISH_IDENTIFIER: "travel.flights",
        PUBLISH_CATALOG: "lake",
        PUBLISH_CATALOG_TYPE: "rest",
        PUBLISH_CATALOG_URI: "https://catalog.example/api",
    }
    (start, *_) = starts(plan(table, EMPTY, seen(*FILES), NOW_MS))
    target = start.operation.table
    assert place.items() <= target.write_properties.items()
    assert place.items() <= target.creation_properties.items()
    assert place.items() <= service_settings(table.spec).items()
    assert target.catalog is None
    assert table.address == table.location.uri
    owner = {"metadata": {"name": "people", "uid": "1"}}
    job = driver_job(start.operation, table, 1, owner=owner, settings=LaunchSettings("engine"))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "catalog"}}]


def test_metastores_go_with_them_and_their_addresses_are_not_kept() -> None:
    address = "thrift://one:9083,thrift://two:9083"
    others = {"region": "eu-central-1", "name": "people"}
    declared = resolved(sync=[{"hive": {"uri": address, "database": "lake"}}, {"glue": others}])
    settings = {
        SYNC: "hive,glue",
        "tideline.sync.glue.uri": "eu-central-1",
        "tideline.sync.glue.name": "people",
        "tideline.sync.hive.uri": address,
        "tideline.sync.hive.database": "lake",
    }
    (start, *_) = starts(plan(declared, EMPTY, seen(*FILES), NOW_MS))
    assert settings.items() <= start.operation.table.write_properties.items()
    assert settings.items() <= service_settings(declared.spec).items()
    assert not settings.keys() & start.operation.table.creation_properties.keys()


def test_a_table_that_does_not_ask_for_it_is_not_published() -> None:
    (start, *_) = starts(plan(resolved(), EMPTY, seen(*FILES), NOW_MS))
    assert PUBLISH not in start.operation.table.write_properties
    assert PUBLISH not in service_settings(resolved().spec)


def test_a_new_table_keeps_it(tmp_path: Path) -> None:
    declared = resolved(publish=["Iceberg"])
    operation = create_operation(replace(declared, location=Location(f"{tmp_path}/table")))
    execute_operation(operation, session_factory=lambda _: pytest.fail("needs no Spark"))
    table = LakeTable.open(f"{tmp_path}/table").hoodie_table
    assert table.config.properties[PUBLISH] == ICEBERG
