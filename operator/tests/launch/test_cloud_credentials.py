"""Credentials for Google's and Azure's storage in pods: references to a Secret, or its file."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import CreateTable, Operation, TableTarget, Work
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat
from tideline.storage.azure.identity import client_credentials as of_azure
from tideline.storage.gcs.identity import client_credentials as of_google
from tideline.testing.file_ingests import ingest_of_files
from tideline_operator.api_objects import Manifest
from tideline_operator.launch.driver_job import driver_job, operation_config_map
from tideline_operator.launch.engine_pod import CA_BUNDLE_PATH, LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.launch.worker_job import worker_template
from tideline_operator.resources.lake_store import (
    LakeStoreSpec,
    StoreAzure,
    StoreCredentials,
    StoreGoogle,
    StoreTls,
)
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.warm import Warm
from tideline_operator.testing.table_states import resolved

SETTINGS = LaunchSettings("engine")
OWNER: Manifest = {"metadata": {"name": "people", "uid": "0f"}}
KEYS = StoreCredentials(secret_name="keys")
GOOGLE = LakeStoreSpec(gcs=StoreGoogle(), credentials=KEYS)
AZURE = LakeStoreSpec(azure=StoreAzure(account="own"), credentials=KEYS)


def templates(**stores: LakeStoreSpec) -> tuple[Manifest, ...]:
    """Of a driver with Spark, one without, a warm worker and an executor."""
    table = replace(resolved(), stores=stores)
    ingest = ingest_of_files(
        "landing", Location("gs://lake/in"), FileFormat.PARQUET, (ArrivedFile("a", 1, 1),),
        generation=0,
    )  # fmt: skip
    held = operation_config_map(operation(table, ingest), table, 1, owner=OWNER, settings=SETTINGS)
    return (
        *(
            driver_job(operation(table, work), table, 1, owner=OWNER, settings=SETTINGS)["spec"][
                "template"
            ]
            for work in (ingest, CreateTable())
        ),
        worker_template(table, Warm(), SETTINGS),
        json.loads(held["data"]["executor-pod.json"]),
    )


def operation(table: ResolvedTable, work: Work) -> Operation:
    return Operation("people-one", TableTarget("people", table.location, ()), work)


def variables(template: Manifest) -> dict[str, Any]:
    found = engine_container(template)["env"]
    assert len({item["name"] for item in found}) == len(found)
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in found}


def test_the_key_of_a_service_account_is_a_file() -> None:
    """The file that Google's own clients look for."""
    for template in templates(cloud=GOOGLE):
        given = variables(template)
        folder, _, file = str(given["GOOGLE_APPLICATION_CREDENTIALS"]).rpartition("/")
        assert "GOOGLE_SERVICE_ACCOUNT_KEY" not in given
        mounts = engine_container(template)["volumeMounts"]
        assert {"name": "credentials", "mountPath": folder, "readOnly": True} in mounts
        volumes = {item["name"]: item for item in template["spec"]["volumes"]}
        items = [{"key": "GOOGLE_SERVICE_ACCOUNT_KEY", "path": file}]
        assert volumes["credentials"]["secret"] == {"secretName": "keys", "items": items}


def test_credentials_of_azure_are_references_to_what_is_there() -> None:
    names = ("ACCOUNT_KEY", "SAS_TOKEN")
    expected = {f"AZURE_STORAGE_{name}" for name in names} | {
        "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_AUTHORITY_HOST",
    }  # fmt: skip
    for template in templates(cloud=AZURE):
        given = variables(template)
        assert {name for name in given if name.startswith("AZURE_")} == expected
        for name in expected:
            reference = {"name": "keys", "key": name, "optional": True}
            assert given[name] == {"secretKeyRef": reference}
        assert not {"credentials", "ca"} & {item["name"] for item in template["spec"]["volumes"]}


def test_no_store_has_the_keys_of_another_kind_and_a_public_one_has_none() -> None:
    public = replace(GOOGLE, credentials=None), replace(AZURE, credentials=None)
    rows = ((GOOGLE, ("AWS_", "AZURE_")), (AZURE, ("AWS_", "GOOGLE_")))
    every = [(store, ("AWS_", "AZURE_", "GOOGLE_")) for store in public]
    for store, others in (*rows, *every):
        for template in templates(cloud=store):
            assert not [name for name in variables(template) if name.startswith(others)]


def test_authorities_are_mounted_for_every_kind() -> None:
    for store in (GOOGLE, AZURE):
        for template in templates(cloud=replace(store, tls=StoreTls(ca_secret_name="ca"))):
            assert variables(template)["AWS_CA_BUNDLE"] == CA_BUNDLE_PATH


def test_what_pods_are_given_is_what_their_process_looks_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The names of variables, held against the code that reads them."""
    key = tmp_path_factory.mktemp("credentials") / "key.json"
    key.write_text(json.dumps({"type": "service_account", "private_key": "of a key"}))
    (_, template, *_) = templates(cloud=GOOGLE)
    for name in variables(template):
        if name.startswith("GOOGLE_"):
            monkeypatch.setenv(name, str(key))
    assert of_google()["application_credentials"] == str(key)
    (_, template, *_) = templates(cloud=AZURE)
    of_client = [name for name in variables(template) if name.startswith(("AZURE_CL", "AZURE_TE"))]
    for wanted, names in (
        ("access_key", ["AZURE_STORAGE_ACCOUNT_KEY", *of_client]),
        ("sas_token", ["AZURE_STORAGE_SAS_TOKEN", *of_client]),
        ("client_secret", of_client),
    ):
        with monkeypatch.context() as pod:
            for name in names:
                pod.setenv(name, "of a pod")
            assert of_azure()["credential_type"] == wanted


def test_stores_of_several_kinds_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"the LakeStores azure, google are of different kinds"):
        templates(google=GOOGLE, azure=AZURE)
