"""Tables on Google's and Azure's storage under the controller: a real API server, a stand-in and
Azurite, and the operations carried out as pods do, with what the Job gives their container.

What differs between the stores is the LakeStore alone, and the scheme of locations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tideline
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.azurite_server import AzuriteServer
from tideline.testing.gcs_server import GcsServer, service_account_key
from tideline_operator.api_objects import LAKE_STORES
from tideline_operator.testing import carried_out
from tideline_operator.testing.controller_case import ControllerCase

pytestmark = pytest.mark.api_server

ACCOUNT = "lake@own.iam.gserviceaccount.com"
NAME = "people"


@dataclass(frozen=True)
class Cloud:
    """A store for one test: its LakeStore, the Secret, and how this test reaches it itself."""

    root: str
    spec: Mapping[str, Any]
    secret: Mapping[str, str]
    options: Mapping[str, str]

    def open(self, path: str) -> ObjectStore:
        return StoreLocation.of(f"{self.root}/{path}", self.options).open()


@pytest.fixture
def google(
    namespace: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    key = service_account_key(ACCOUNT)
    with GcsServer("lake", account=ACCOUNT) as server:
        own = tmp_path_factory.mktemp("own") / "key.json"
        own.write_text(key)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(own))
        options = server.storage_options()
        spec = {"gcs": {"endpoint": options["gcs_endpoint"]}}
        secret = {"GOOGLE_SERVICE_ACCOUNT_KEY": key}
        yield Cloud(f"gs://lake/{namespace}", spec, secret, options)


@pytest.fixture
def azure(azurite_server: AzuriteServer, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    for name, value in azurite_server.environment().items():
        monkeypatch.setenv(name, value)
    spec = {"azure": {"account": "tideacct", "endpoint": azurite_server.endpoint}}
    options = {**azurite_server.storage_options(), "azure_account": "tideacct"}
    return Cloud(f"az://lake/{namespace}", spec, azurite_server.environment(), options)


@pytest.fixture(params=["google", pytest.param("azure", marks=pytest.mark.azurite)])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Cloud)
    return found


def declare(case: ControllerCase, cloud: Cloud, **spec: Any) -> None:
    case.declare_store(**cloud.spec, credentials={"secretName": "keys"})
    case.declare(NAME, location=f"{cloud.root}/{NAME}", storeRef="store", **spec)


def land(cloud: Cloud, name: str, *ids: int) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array([1] * len(ids), pa.int64())})
    with cloud.open("landing").open_writer(name) as sink:
        pq.write_table(rows, sink)


def carry_out(case: ControllerCase, cloud: Cloud, kind: str) -> None:
    secret = next(iter(cloud.secret.values()))
    job = case.until_job(kind)
    carried_out.carry_out_in_pod(case, job, without=json.dumps(secret)[1:-1])


def store_status(case: ControllerCase) -> Mapping[str, Any]:
    found = case.api.get(LAKE_STORES, "store", case.namespace) or {}
    return dict(found.get("status") or {})


def test_a_hudi_table_is_created_fed_and_reported(case: ControllerCase, cloud: Cloud) -> None:
    land(cloud, "one.parquet", 1, 2)
    landing = {"format": "parquet", "path": f"{cloud.root}/landing/"}
    feed = {"name": "landing", "source": landing, "trigger": {"every": "1s"}}
    declare(case, cloud, ingest=[feed])
    case.start()
    reason = case.until(lambda: case.condition("Ready", NAME).get("reason"), "a reason")
    assert reason == "SecretMissing"
    carried_out.create_secret(case, "keys", cloud.secret)
    carry_out(case, cloud, "create")
    carry_out(case, cloud, "ingest")
    case.until_ready(NAME)
    case.until(lambda: case.status(NAME)["timeline"].get("completed"), "the commit is reported")
    table = tideline.open(f"{cloud.root}/{NAME}", storage_options=dict(cloud.options))
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    case.until(lambda: store_status(case).get("buckets"), "the store was checked")
    (bucket,) = store_status(case)["buckets"].values()
    assert bucket["outcome"] == "passed"
    shown = json.dumps([case.table(NAME), case.event_notes(NAME), store_status(case)])
    assert not any(json.dumps(text)[1:-1] in shown for text in cloud.secret.values())


@pytest.mark.slow
def test_an_iceberg_table_is_created_fed_and_upgraded(case: ControllerCase, cloud: Cloud) -> None:
    land(cloud, "one.parquet", 1, 2)
    carried_out.create_secret(case, "keys", cloud.secret)
    landing = {"format": "parquet", "path": f"{cloud.root}/landing/"}
    feed = {"name": "landing", "source": landing, "trigger": {"every": "1s"}}
    services = {"removeOrphanFiles": {"enabled": False}}
    declare(case, cloud, format="Iceberg", ingest=[feed], services=services)
    case.start()
    carry_out(case, cloud, "create")
    carry_out(case, cloud, "ingest")
    case.until_ready(NAME)
    found = lambda: case.status(NAME)["ingest"]["landing"].get("checkpoint")  # noqa: E731
    assert case.until(found, "the checkpoint") == "generation 1 up to one.parquet"
    case.change(NAME, {"spec": {"formatVersion": 3}})
    carry_out(case, cloud, "create")
    land(cloud, "two.parquet", 2, 3)
    carry_out(case, cloud, "ingest")
    table = tideline.open_iceberg(f"{cloud.root}/{NAME}", storage_options=dict(cloud.options))
    assert table.version == 3
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_an_iceberg_table_is_served(case: ControllerCase, cloud: Cloud) -> None:
    rows, options = pa.table({"id": [1, 2]}), dict(cloud.options)
    table = tideline.create_iceberg(f"{cloud.root}/{NAME}", rows.schema, storage_options=options)
    for _ in range(3):
        table.write(rows)
    carried_out.create_secret(case, "keys", cloud.secret)
    services = {"quietFor": "1ms", "rewriteDataFiles": {"minInputFiles": 3}}
    not_hudi = {"recordKey": None, "ordering": None, "schema": None, "ingest": None}
    declare(case, cloud, format="Iceberg", services=services, **not_hudi)
    case.start()
    carry_out(case, cloud, "rewrite")
    case.until(
        lambda: case.status(NAME).get("timeline", {}).get("latestAction") == "replace",
        "the rewrite is reported",
    )
    case.until_ready(NAME)
    table = tideline.open_iceberg(f"{cloud.root}/{NAME}", storage_options=options)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 1, 1, 2, 2, 2]


def test_a_key_that_the_store_refuses_is_a_condition(case: ControllerCase, google: Cloud) -> None:
    other = service_account_key("other@own.iam.gserviceaccount.com")
    carried_out.create_secret(case, "keys", {"GOOGLE_SERVICE_ACCOUNT_KEY": other})
    declare(case, google, ingest=None)
    case.start()
    case.until(
        lambda: case.condition("Ready", NAME).get("reason") == "StorageUnavailable", "it is refused"
    )
    assert "access denied, check the credentials" in case.condition("Ready", NAME)["message"]
    assert not case.cluster.active_jobs()


def test_a_tenant_reaches_no_container_with_the_operators_identity(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LakeStore that names no account does not get that of the operator's environment."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "operatorsaccount")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b3duIGtleQ==")
    case.declare_store(azure={})
    case.declare(NAME, location="az://lake/people", storeRef="store", ingest=None)
    case.start()
    case.until(
        lambda: case.condition("Ready", NAME).get("reason") == "LocationInvalid", "it is refused"
    )
    message = case.condition("Ready", NAME)["message"]
    assert "names no account: give LakeStore 'store' spec.azure.account" in message
    assert "operatorsaccount" not in json.dumps([case.table(NAME), case.event_notes(NAME)])
