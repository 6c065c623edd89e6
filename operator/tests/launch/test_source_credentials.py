"""Credentials for brokers in pods: references to the Secret that a source names."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tideline.ingest.operation.operation import (
    CreateTable,
    IngestRange,
    Operation,
    TableTarget,
)
from tideline.ingest.sources.kafka.credentials import SECRET_KEYS
from tideline.ingest.sources.kafka.declared import DeclaredKafka
from tideline.ingest.sources.kafka.records import KafkaRange
from tideline.ingest.sources.postgres.credentials import secret_keys
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.driver_job import driver_job, operation_config_map
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.launch.worker_job import worker_template
from tideline_operator.resources.lake_store import LakeStoreSpec, StoreCredentials
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.warm import Warm
from tideline_operator.testing.table_states import resolved

SETTINGS = LaunchSettings("engine")
OWNER: Manifest = {"metadata": {"name": "people", "uid": "0f"}}
STORE = LakeStoreSpec(credentials=StoreCredentials(secret_name="keys"))
FILES = {"format": "parquet", "path": "s3://lake/landing/"}


def fed_by(*sources: dict[str, Any]) -> ResolvedTable:
    feeds = [
        {"name": f"feed-{number}", "source": source, "trigger": {"every": "30s"}}
        for number, source in enumerate(sources)
    ]
    spec = {"location": "s3://lake/people", "storeRef": "minio", "recordKey": ["id"]}
    manifest = {"metadata": {"name": "people"}, "spec": {**spec, "ingest": feeds}}
    resource = parse_object(LakeTable, manifest)
    return replace(resolved(), resource=resource, stores={"minio": STORE})


def topics(secret: str | None = None) -> dict[str, Any]:
    given = {"format": "kafka", "brokers": "broker:9093", "topics": ["orders"]}
    return given if secret is None else {**given, "credentials": {"secretName": secret}}


def templates(table: ResolvedTable) -> tuple[Manifest, Manifest]:
    """Of a driver, and of a warm worker."""
    operation = Operation("people-create", TableTarget("people", table.location, ()), CreateTable())
    job = driver_job(operation, table, 1, owner=OWNER, settings=SETTINGS)
    return job["spec"]["template"], worker_template(table, Warm(), SETTINGS)


def executor_template(table: ResolvedTable) -> Manifest:
    source = DeclaredKafka(brokers="broker:9093", topics=("orders",), schema=())
    target = TableTarget("people", table.location, ())
    ingest = Operation("people-feed", target, IngestRange("feed", source, KafkaRange(), 0))
    held = operation_config_map(ingest, table, 1, owner=OWNER, settings=SETTINGS)
    found: Manifest = json.loads(held["data"]["executor-pod.json"])
    return found


def brokers_variables(template: Manifest) -> dict[str, Any]:
    found = engine_container(template)["env"]
    assert len({item["name"] for item in found}) == len(found)
    return {item["name"]: item["valueFrom"] for item in found if item["name"] in SECRET_KEYS}


def test_each_key_is_a_variable_of_drivers_workers_and_executors() -> None:
    table = fed_by(FILES, topics("broker"), topics("broker"), topics())
    for template in (*templates(table), executor_template(table)):
        found = brokers_variables(template)
        assert list(found) == list(SECRET_KEYS)
        for key, value in found.items():
            assert value == {"secretKeyRef": {"name": "broker", "key": key, "optional": True}}


def test_each_kind_takes_its_own_keys() -> None:
    """The variable of the connection is named by the source."""
    named = {"secretName": "sources"}
    table = {"format": "postgres", "table": "orders", "slot": "s", "credentials": named}
    renamed = {**table, "slot": "t", "connectionVariable": "POSTGRES_SHOP"}
    for template in templates(fed_by(table, renamed)):
        found = {
            item["name"]: item["valueFrom"]["secretKeyRef"]
            for item in engine_container(template)["env"]
            if "secretKeyRef" in item.get("valueFrom", {})
        }
        keys = [name for name, reference in found.items() if reference["name"] == "sources"]
        assert keys == [*secret_keys("POSTGRES_URI"), "POSTGRES_SHOP"]
    (both, _) = templates(fed_by({**topics("sources")}, table))
    names = [item["name"] for item in engine_container(both)["env"]]
    assert {"KAFKA_PASSWORD", "POSTGRES_URI", "POSTGRES_CA"} < set(names)
    assert len(set(names)) == len(names)


def test_without_a_secret_there_are_none() -> None:
    for template in templates(fed_by(FILES, topics())):
        assert brokers_variables(template) == {}


def test_executors_have_no_credentials_of_what_they_do_not_read() -> None:
    named = {"secretName": "sources"}
    table = {"format": "postgres", "table": "orders", "slot": "s", "credentials": named}
    found = engine_container(executor_template(fed_by(topics("sources"), table)))["env"]
    names = {item["name"] for item in found}
    assert "KAFKA_PASSWORD" in names
    assert not {name for name in names if name.startswith("POSTGRES")}
