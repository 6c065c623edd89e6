"""Where pods have the certificate that a store demands of its clients."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    CreateTable,
    IngestRange,
    Operation,
    TableTarget,
)
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat
from tideline.storage.egress.client_files import ClientFiles
from tideline.testing.file_ingests import ingest_of_files
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.driver_job import driver_job, operation_config_map
from tideline_operator.launch.engine_pod import CLIENT_FILES, LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.launch.worker_job import worker_template
from tideline_operator.resources.lake_store import (
    LakeStoreSpec,
    StoreClientCertificate,
    StoreCredentials,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.warm import Warm
from tideline_operator.testing.table_states import resolved

SETTINGS = LaunchSettings("engine")
OWNER: Manifest = {"metadata": {"name": "people", "uid": "0f"}}
ELSEWHERE = Location("s3://lake/people", tuple(ClientFiles("/else.crt").options.items()))
PLAIN = LakeStoreSpec(
    endpoint="https://minio:9000", credentials=StoreCredentials(secret_name="keys")
)
SHOWN = replace(PLAIN, client_certificate=StoreClientCertificate(secret_name="shown"))


def table(**stores: LakeStoreSpec) -> ResolvedTable:
    return replace(resolved(), stores=stores)


SMALL = CreateTable()
ROWS = ingest_of_files(
    "landing", Location("s3://lake/in"), FileFormat.PARQUET, (ArrivedFile("a", 1, 1),), generation=0
)


def operation(work: CreateTable | IngestRange = SMALL) -> Operation:
    return Operation("people-one", TableTarget("people", ELSEWHERE, ()), work)


def held(of: ResolvedTable, work: CreateTable | IngestRange = SMALL) -> Manifest:
    return operation_config_map(operation(work), of, 1, owner=OWNER, settings=SETTINGS)


def templates(of: ResolvedTable) -> tuple[Manifest, ...]:
    """Of a small pod, a driver, an executor and a warm worker."""
    small, driver = (
        driver_job(operation(work), of, 1, owner=OWNER, settings=SETTINGS)["spec"]["template"]
        for work in (SMALL, ROWS)
    )
    assert "executor-pod.json" not in held(of)["data"]
    executor: Manifest = json.loads(held(of, ROWS)["data"]["executor-pod.json"])
    return small, driver, executor, worker_template(of, Warm(), SETTINGS)


def test_it_is_mounted_where_every_pod_looks_for_it() -> None:
    for template in templates(table(minio=SHOWN)):
        container = engine_container(template)
        given = {item["name"]: item.get("value", "") for item in container["env"]}
        assert ClientFiles.of_environment(given) == CLIENT_FILES
        volumes = {item["name"]: item for item in template["spec"]["volumes"]}
        items = [{"key": key, "path": key} for key in ("tls.crt", "tls.key")]
        assert volumes["client"]["secret"] == {"secretName": "shown", "items": items}
        (mount,) = (item for item in container["volumeMounts"] if item["name"] == "client")
        paths = [f"{mount['mountPath']}/{item['path']}" for item in items]
        assert paths == [*CLIENT_FILES.options.values()] and mount["readOnly"]
    for template in templates(table(minio=PLAIN)):
        assert "CLIENT_" not in json.dumps(template)


def test_the_operation_has_its_places_in_the_pod() -> None:
    written = json.loads(held(table(minio=SHOWN))["data"]["operation.json"])
    read = Operation.from_json_object(written)
    assert dict(read.table.location.options) == CLIENT_FILES.options


def test_stores_of_one_table_show_one() -> None:
    with pytest.raises(ConfigError, match=r"a, b differ in spec\.clientCertificate"):
        templates(table(a=PLAIN, b=SHOWN))
