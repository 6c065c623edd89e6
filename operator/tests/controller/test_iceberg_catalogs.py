"""Iceberg tables that a catalog keeps: found, maintained, opened with a Secret."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from tideline.clock import SystemClock
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.hostile_catalog import (
    CODE,
    CODE_MODULE,
    TOKEN,
    HostileCatalog,
    Spy,
    dangerous_properties,
    overriding,
    repeating_credentials,
)
from tideline_operator.api_objects import SECRETS
from tideline_operator.controller.catalog_secrets import catalog_properties
from tideline_operator.decide.due_services import needs_of
from tideline_operator.decide.planner import plan
from tideline_operator.launch.driver_job import driver_job, moves_rows, operation_config_map
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.pod_template import engine_container
from tideline_operator.observe.iceberg_source import open_source
from tideline_operator.observe.observation import Observer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.dead_endpoints import DeadEndpoints
from tideline_operator.testing.table_states import EMPTY, resolved_iceberg, starts

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog

CLOCK = SystemClock()
NAME = "shop.orders"
VARIABLE = "PYICEBERG_CATALOG__LAKE__URI"
EXPIRING = {
    "rewriteDataFiles": {"enabled": False},
    "removeOrphanFiles": {"enabled": False},
    "expireSnapshots": {"olderThan": "1ms", "retainLast": 1},
}


class Shop:
    """A SQL catalog `lake` in a folder, in which others keep `shop.orders`."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.warehouse = f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("lake", uri=self.uri, warehouse=self.warehouse)
        self.catalog.create_namespace("shop")

    def append(self, times: int = 1) -> None:
        rows = pa.table({"id": pa.array(range(10), pa.int64())})
        if not self.catalog.table_exists(NAME):
            self.catalog.create_table(NAME, rows.schema)
        for _ in range(times):
            self.catalog.load_table(NAME).append(rows)

    def rows(self) -> int:
        return len(self.catalog.load_table(NAME).scan().to_arrow())

    def spec(self, **catalog: Any) -> dict[str, Any]:
        place = {"type": "sql", "name": "lake", "warehouse": self.warehouse, "table": NAME}
        return {"catalog": {**place, **catalog}}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def no_spark(_: object) -> NoReturn:
    raise AssertionError("this work needs no Spark")


def test_a_table_of_a_catalog_is_found_and_maintained(shop: Shop) -> None:
    table = resolved_iceberg(**shop.spec(uri=shop.uri), services=EXPIRING)
    observer = Observer(CLOCK)
    assert observer.observe(table, EMPTY).iceberg is None
    shop.append(3)
    observed = observer.observe(table, EMPTY)
    assert observed.iceberg is not None
    assert observed.iceberg.files is not None
    assert observed.iceberg.files.files == 3
    (start,) = starts(plan(table, EMPTY, observed, CLOCK.now_ms()))
    result = execute_operation(start.operation, session_factory=no_spark)
    assert (result.outcome, result.message) == (Outcome.SUCCEEDED, "expired 2 snapshots, 1 stay")
    assert shop.rows() == 30
    needs = needs_of(table.spec, EMPTY, observer.observe(table, EMPTY), CLOCK.now_ms())
    assert [need.name for need in needs if need.is_due] == []
    assert observer.observe(table, EMPTY) == observer.observe(table, EMPTY)


def test_an_unreachable_catalog_is_a_problem(shop: Shop, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/nowhere/catalog.db"
    problem = Observer(CLOCK).observe(resolved_iceberg(**shop.spec(uri=uri)), EMPTY).problem
    assert problem is not None


def test_a_catalog_that_does_not_answer_is_given_up_soon(shop: Shop) -> None:
    observer = Observer(CLOCK, open_iceberg=partial(open_source, timeout_s=0.5))
    with DeadEndpoints(2) as dead:
        for uri in dead.urls:
            table = resolved_iceberg(**shop.spec(type="rest", uri=uri))
            problems = [observer.observe(table, EMPTY).problem for _ in range(2)]
            assert problems[0] is not None and problems[0].is_transient
            assert problems[0].reason == "StorageUnavailable"
            # The same words each time, so that conditions and events do not change.
            assert problems[0] == problems[1]


def test_variables_of_the_environment_are_properties_of_one_catalog() -> None:
    variables = {
        "PYICEBERG_CATALOG__LAKE__TOKEN": "t",
        "PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID": "k",
        "PYICEBERG_CATALOG__OTHER__TOKEN": "o",
        "PATH": "/bin",
    }
    assert catalog_properties("lake", variables) == {"token": "t", "s3.access-key-id": "k"}


def test_only_the_driver_gets_the_credentials_of_the_catalog(shop: Shop) -> None:
    spec = shop.spec(credentials={"secretName": "catalog-token"})
    table = resolved_iceberg(**spec, services={"rewriteManifests": {"enabled": False}},
                             rerun={"rewriteDataFiles": 1})  # fmt: skip
    shop.append()
    credentialed = resolved_iceberg(**shop.spec(uri=shop.uri))
    observed = Observer(CLOCK).observe(credentialed, EMPTY)
    start = starts(plan(table, EMPTY, observed, CLOCK.now_ms()))[0]
    owner = {"metadata": {"name": "orders", "uid": "1"}}
    job = driver_job(start.operation, table, 1, owner=owner, settings=LaunchSettings("engine"))
    container = engine_container(job["spec"]["template"])
    assert container["envFrom"] == [{"secretRef": {"name": "catalog-token"}}]


@pytest.mark.parametrize("kind", ["rest", "sql"])
def test_executors_get_what_opens_a_catalog_that_may_vend(shop: Shop, kind: str) -> None:
    spec = shop.spec(credentials={"secretName": "catalog-token"}, type=kind)
    table = resolved_iceberg(**spec, rerun={"rewriteDataFiles": 1})
    shop.append()
    observed = Observer(CLOCK).observe(resolved_iceberg(**shop.spec(uri=shop.uri)), EMPTY)
    (operation,) = (
        start.operation
        for start in starts(plan(table, EMPTY, observed, CLOCK.now_ms()))
        if moves_rows(start.operation)
    )
    owner = {"metadata": {"name": "orders", "uid": "1"}}
    settings = LaunchSettings("engine")
    data = operation_config_map(operation, table, 1, owner=owner, settings=settings)["data"]
    container = engine_container(json.loads(data["executor-pod.json"]))
    named = [{"secretRef": {"name": "catalog-token"}}] if kind == "rest" else None
    assert container.get("envFrom") == named


@pytest.mark.slow
@pytest.mark.api_server
def test_the_controller_opens_catalogs_with_their_secrets(case: ControllerCase, shop: Shop) -> None:
    no_hudi = {"location": None, "recordKey": None, "ordering": None, "schema": None,
               "ingest": None}  # fmt: skip
    catalog = shop.spec(credentials={"secretName": "catalog"})
    case.declare("orders", format="Iceberg", services=EXPIRING, **no_hudi, **catalog)
    case.start()

    def reason() -> str:
        return str(case.condition("Ready", "orders").get("reason"))

    case.until(lambda: reason() == "SecretMissing", "the Secret is missing")
    secret = {"metadata": {"name": "catalog"}, "apiVersion": "v1", "kind": "Secret",
              "data": {VARIABLE: base64.b64encode(shop.uri.encode()).decode()}}  # fmt: skip
    case.api.create(SECRETS, secret, case.namespace)
    case.until(lambda: reason() == "TableMissing", "the table is missing", timeout_s=30)
    shop.append(3)
    job = case.until_job("expire")
    assert shop.uri not in str(case.cluster.operation_of(job))
    case.cluster.finish(job, executed(case.cluster.operation_of(job), case.folder, shop))
    case.until_ready("orders")
    case.until(lambda: case.status("orders")["timeline"]["completed"] == 1, "one is left")
    assert shop.rows() == 30


def executed(operation: Operation, folder: Path, shop: Shop) -> OperationResult:
    """The outcome of an operation in a pod, which has the Secret in its environment."""
    path = folder / "operation.json"
    path.write_text(json.dumps(operation.to_json_object()))
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "execute", "--operation", str(path)],
        env={**os.environ, VARIABLE: shop.uri},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return OperationResult.from_json_object(json.loads(done.stdout))


@pytest.mark.api_server
def test_two_resources_do_not_manage_one_table_of_a_catalog(
    case: ControllerCase, shop: Shop
) -> None:
    shop.append()
    no_hudi = {"location": None, "recordKey": None, "ordering": None, "schema": None,
               "ingest": None}  # fmt: skip
    for name in ("first", "second"):
        case.declare(name, format="Iceberg", services={"mode": "Off"}, **no_hudi,
                     **shop.spec(uri=shop.uri))  # fmt: skip
        if case.controller is None:
            case.start()
        case.until(partial(case.condition, "Ready", name), f"{name} was looked at")
    case.until_ready("first")
    assert case.condition("Ready", "second")["reason"] == "LocationTaken"


@pytest.mark.api_server
def test_a_hostile_catalog_gets_nothing_of_the_controllers_and_runs_nothing(
    case: ControllerCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "token-of-the-operator")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-operator")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-operator")
    no_hudi = {"location": None, "recordKey": None, "ordering": None, "schema": None,
               "ingest": None, "services": {"mode": "Off"}}  # fmt: skip
    with Spy() as spy, HostileCatalog("s3://nowhere/orders") as hostile:
        secret = {"metadata": {"name": "catalog"}, "apiVersion": "v1", "kind": "Secret",
                  "data": {"PYICEBERG_CATALOG__LAKE__TOKEN": encoded(TOKEN),
                           "PYICEBERG_CATALOG__LAKE__PY_IO_IMPL": encoded(CODE),
                           "PYICEBERG_CATALOG__LAKE__PY_CATALOG_IMPL": encoded(CODE)}}  # fmt: skip
        case.api.create(SECRETS, secret, case.namespace)
        properties = dangerous_properties(spy.url)
        hostile.alter("config", overriding(properties))
        hostile.alter("table", repeating_credentials(403))
        place = {"type": "rest", "name": "lake", "uri": hostile.url, "table": NAME,
                 "credentials": {"secretName": "catalog"}}  # fmt: skip
        case.declare("orders", format="Iceberg", catalog=place, **no_hudi)
        case.start()
        case.until(
            lambda: any(received.kind == "table" for received in hostile.received),
            "the table is asked for",
        )
        found = case.until(lambda: case.condition("Ready", "orders").get("message"), "a problem")
        assert spy.heard == []
        for request in hostile.received:
            sent = {name.lower(): text for name, text in request.headers.items()}
            assert sent["authorization"] == f"Bearer {TOKEN}"
            assert "operator" not in request.text
        assert TOKEN not in str(found)
        assert TOKEN not in str(case.status("orders"))
        assert CODE_MODULE not in sys.modules


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
