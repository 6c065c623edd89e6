"""LakeCatalogs in the cluster: each table has a LakeTable, as the policy says, and no more."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.api_objects import LAKE_CATALOGS, LAKE_TABLES, SECRETS, Manifest
from tideline_operator.controller import owner_reconcile
from tideline_operator.decide import planner
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.dead_endpoints import DeadEndpoints

pytestmark = pytest.mark.api_server

NAMES = ("sales.orders", "sales.order_lines", "tmp.scratch")
LABEL = "tideline.dev/catalog"


PODS = {"spec": {"nodeSelector": {"disk": "fast"}}}


class CatalogCase(ControllerCase):
    """A folder `warehouse` of tables, and LakeCatalogs about it."""

    def create_table(self, name: str, appends: int = 1) -> IcebergModel:
        folder = f"{self.folder}/warehouse/{name.replace('.', '/')}"
        return IcebergModel.create_in(folder, appends)

    def drop_table(self, name: str) -> None:
        shutil.rmtree(self.folder / "warehouse" / name.replace(".", "/"))

    def declare_catalog(self, name: str = "lake", **spec: Any) -> Manifest:
        """Create a LakeCatalog about the folder, or change it."""
        services = {"mode": "Off"}
        content = {
            "location": f"file://{self.folder}/warehouse",
            "every": "1s",
            "exclude": ["tmp.*"],
            "services": services,
            **spec,
        }
        manifest: Manifest = {
            "apiVersion": LAKE_CATALOGS.api_version,
            "kind": LAKE_CATALOGS.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {key: value for key, value in content.items() if value is not None},
        }
        if self.api.get(LAKE_CATALOGS, name, self.namespace) is None:
            self.api.create(LAKE_CATALOGS, manifest, self.namespace)
        else:
            self.api.patch(LAKE_CATALOGS, name, {"spec": spec}, self.namespace)
        return self.catalog(name)

    def catalog(self, name: str = "lake") -> Manifest:
        found = self.api.get(LAKE_CATALOGS, name, self.namespace)
        assert found is not None
        return found

    def catalog_status(self, name: str = "lake") -> Manifest:
        return dict(self.catalog(name).get("status") or {})

    def catalog_condition(self, kind: str = "Ready", name: str = "lake") -> Manifest:
        conditions = self.catalog_status(name).get("conditions", ())
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def owned(self, catalog: str = "lake") -> dict[str, Manifest]:
        found, _ = self.api.list(LAKE_TABLES, self.namespace, labels=f"{LABEL}={catalog}")
        return {item["metadata"]["name"]: item for item in found}

    def labels(self) -> dict[str, str]:
        return {"namespace": self.namespace, "catalog": "lake"}

    def until_owned(self, *names: str, catalog: str = "lake") -> dict[str, Manifest]:
        self.until(lambda: sorted(self.owned(catalog)) == sorted(names), f"LakeTables {names}")
        return self.owned(catalog)


@pytest.fixture
def case(
    api_server: ApiServer, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CatalogCase]:
    monkeypatch.setattr(planner, "OBSERVE_RETRY_MS", 1_000)
    monkeypatch.setattr(owner_reconcile, "RETRY_S", 1.0)
    with CatalogCase(api_server, namespace, tmp_path) as case:
        for name in NAMES:
            case.create_table(name)
        yield case


ORDERS, LINES = "lake-sales-orders", "lake-sales-order-lines"


def test_each_table_gets_a_laketable_that_is_maintained(case: CatalogCase) -> None:
    case.create_table("sales.many", appends=5)
    no_orphans = {"removeOrphanFiles": {"enabled": False}}
    catalog = case.declare_catalog(services=no_orphans, podTemplate=PODS)
    case.start()
    tables = case.until_owned(ORDERS, LINES, "lake-sales-many")
    (owner,) = tables[ORDERS]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("LakeCatalog", "lake", True)
    assert owner["uid"] == catalog["metadata"]["uid"]
    spec = tables[LINES]["spec"]
    assert spec["location"] == f"file://{case.folder}/warehouse/sales/order_lines"
    assert (spec["services"]["quietFor"], spec["podTemplate"]) == ("10m", PODS)
    case.until_ready(ORDERS)
    job = case.until_job("rewrite")
    assert job["metadata"]["labels"]["tideline.dev/table"] == "lake-sales-many"
    status = case.catalog_status()
    assert (status["found"], status["maintained"], status["excluded"]) == (4, 3, 1)
    assert case.catalog_condition()["reason"] == "Listed"
    assert status["lastLook"]
    case.until(
        lambda: case.catalog_condition("TablesReady").get("status") == "True", "none is failing"
    )


def test_tables_come_and_go_and_nothing_of_them_is_deleted(case: CatalogCase) -> None:
    case.declare_catalog()
    case.start()
    case.until_owned(ORDERS, LINES)
    case.create_table("sales.returns")
    case.until_owned(ORDERS, LINES, "lake-sales-returns")
    case.drop_table("sales.returns")
    case.until_owned(ORDERS, LINES)
    case.declare_catalog(exclude=["tmp.*", "*_lines"])
    case.until_owned(ORDERS)
    assert (case.folder / "warehouse/sales/order_lines/metadata/v1.metadata.json").exists()
    case.until(lambda: case.catalog_status()["excluded"] == 2, "it is excluded")
    case.until(
        lambda: "TablesChanged" in case.event_reasons("lake"), "an event tells of the changes"
    )


def test_the_policy_wins_but_reruns_and_annotations_stay(case: CatalogCase) -> None:
    case.declare_catalog()
    case.start()
    case.until_owned(ORDERS, LINES)
    change = {
        "metadata": {"annotations": {"tideline.dev/paused": "true"}},
        "spec": {"rerun": {"expireSnapshots": 1}, "services": {"mode": "Auto"}},
    }
    case.change(ORDERS, change)
    case.until(lambda: case.owned()[ORDERS]["spec"]["services"]["mode"] == "Off", "the policy")
    table = case.owned()[ORDERS]
    assert table["spec"]["rerun"] == {"expireSnapshots": 1}
    assert table["metadata"]["annotations"] == {"tideline.dev/paused": "true"}
    case.declare_catalog(services={"mode": "Advise", "rewriteManifests": {"minManifests": 7}})

    def is_taken_over() -> bool:
        services = [item["spec"]["services"] for item in case.owned().values()]
        manifests = [
            service.get("rewriteManifests", {}).get("minManifests") for service in services
        ]
        return manifests == [7, 7] and {service["mode"] for service in services} == {"Advise"}

    case.until(is_taken_over, "both have the new policy")
    case.api.patch(
        LAKE_CATALOGS,
        "lake",
        {"metadata": {"annotations": {"tideline.dev/paused": "true"}}},
        case.namespace,
    )
    case.until(
        lambda: all(item["spec"].get("suspend") for item in case.owned().values()), "all stop"
    )


def test_a_table_with_a_laketable_of_its_own_is_left_to_it(case: CatalogCase) -> None:
    not_hudi = {"recordKey": None, "ordering": None, "schema": None, "ingest": None}
    own = {"format": "Iceberg", "services": {"mode": "Off"}, **not_hudi}
    place = f"file://{case.folder}/warehouse/sales"
    case.declare("orders", location=f"{place}/orders/", **own)
    case.declare_catalog()
    case.start()
    case.until_owned(LINES)
    case.until(lambda: case.catalog_status().get("leftToOthers") == 1, "one is left")
    case.declare("lines", location=f"{place}/order_lines", **own)
    case.until_owned()
    case.until_ready("lines")
    case.api.delete(LAKE_TABLES, "orders", case.namespace)
    case.until_owned(ORDERS)


def test_names_are_not_taken_from_others(case: CatalogCase) -> None:
    case.declare(ORDERS, services={"mode": "Off"})
    case.create_table("sales.order-lines")
    case.declare_catalog()
    case.start()
    case.until(lambda: len(case.owned()) == 3, "three tables")
    names = sorted(case.owned())
    assert all(name.startswith(("lake-sales-orders-", LINES)) for name in names)
    assert case.table(ORDERS)["spec"]["recordKey"] == ["id"]


def test_of_two_catalogs_the_older_has_a_table(case: CatalogCase) -> None:
    case.declare_catalog("a-older", include=["sales.orders"])
    case.start()
    case.until_owned("a-older-sales-orders", catalog="a-older")
    case.declare_catalog("b-younger")
    case.until_owned("b-younger-sales-order-lines", catalog="b-younger")
    case.until(
        lambda: case.catalog_status("b-younger").get("leftToOthers") == 1, "one is the older's"
    )
    assert sorted(case.owned("a-older")) == ["a-older-sales-orders"]


def test_without_a_listing_all_laketables_stay(case: CatalogCase) -> None:
    case.declare_catalog()
    case.start()
    case.until_owned(ORDERS, LINES)
    inner = case.folder / "warehouse/metadata"
    inner.mkdir()
    (inner / "v1.metadata.json").write_text("{}")
    case.until(lambda: case.catalog_condition().get("status") == "False", "it is not listed")
    assert "is a table, not a folder" in case.catalog_condition()["message"]
    assert sorted(case.owned()) == sorted((ORDERS, LINES))
    case.until(lambda: "ConfigError" in case.event_reasons("lake"), "an event says so")
    shutil.rmtree(inner)
    case.until(lambda: case.catalog_condition().get("status") == "True", "it is listed again")
    case.stop()
    case.drop_table("sales.order_lines")
    case.start()
    case.until_owned(ORDERS)


def test_a_listing_without_any_table_takes_none_away(case: CatalogCase) -> None:
    case.declare_catalog()
    case.start()
    case.until_owned(ORDERS, LINES)
    (case.folder / "warehouse").rename(case.folder / "away")
    case.until(lambda: case.catalog_condition().get("reason") == "NothingFound", "nothing is found")
    assert "2 tables had been" in case.catalog_condition()["message"]
    assert sorted(case.owned()) == sorted((ORDERS, LINES))
    assert case.measured("tideline_catalog_ready", **case.labels()) == 0.0
    (case.folder / "away").rename(case.folder / "warehouse")
    case.until(lambda: case.catalog_condition().get("reason") == "Listed", "all are found again")
    case.until(lambda: case.measured("tideline_catalog_ready", **case.labels()) == 1.0, "the gauge")
    case.api.delete(LAKE_CATALOGS, "lake", case.namespace)
    name, labels = "tideline_catalog_ready", case.labels()
    case.until(
        lambda: case.metrics.registry.get_sample_value(name, labels) is None, "it is forgotten"
    )


def test_a_laketable_that_was_deleted_by_hand_comes_back(case: CatalogCase) -> None:
    case.declare_catalog(every="1h")
    case.start()
    uid = case.until_owned(ORDERS, LINES)[ORDERS]["metadata"]["uid"]
    case.api.delete(LAKE_TABLES, ORDERS, case.namespace)

    def is_another() -> bool:
        table = case.owned().get(ORDERS)
        return table is not None and table["metadata"]["uid"] != uid

    case.until(is_another, "another one")
    case.until_ready(ORDERS)


def test_failing_and_late_tables_are_counted(case: CatalogCase) -> None:
    (case.folder / "warehouse/sales/broken/metadata").mkdir(parents=True)
    (case.folder / "warehouse/sales/broken/metadata/v1.metadata.json").write_text("{")
    case.create_table("sales.many", appends=5)
    window = {"maintenanceWindow": "0 0 29 2 *", "removeOrphanFiles": {"enabled": False}}
    case.declare_catalog(services=window)
    case.start()

    def counts() -> tuple[int, int]:
        status = case.catalog_status()
        return status.get("late", 0), status.get("failing", 0)

    case.until(lambda: counts() == (1, 1), "one is late and one fails")
    failing = case.catalog_condition("TablesReady")
    assert (failing["status"], failing["reason"]) == ("False", "TablesFailing")
    assert "lake-sales-broken (CorruptTable" in failing["message"]
    shown = case.api.list(LAKE_CATALOGS, case.namespace)[0][0]
    assert shown["status"]["found"] == 5


def test_a_catalog_is_opened_with_its_secret(case: CatalogCase, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.schema import Schema

    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("shop", uri=uri, warehouse=f"file://{tmp_path}/kept")
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", Schema())
    given = {"type": "sql", "name": "shop", "credentials": {"secretName": "shop"}}
    case.declare_catalog(location=None, catalog=given)
    case.start()
    case.until(lambda: case.catalog_condition().get("reason") == "SecretMissing", "no Secret")
    encoded = base64.b64encode(uri.encode()).decode()
    secret = {"metadata": {"name": "shop"}, "apiVersion": "v1", "kind": "Secret",
              "data": {"PYICEBERG_CATALOG__SHOP__URI": encoded}}  # fmt: skip
    case.api.create(SECRETS, secret, case.namespace)
    case.until(lambda: sorted(case.owned()) == [ORDERS], "its table", timeout_s=40.0)
    spec = case.owned()[ORDERS]["spec"]
    assert spec["catalog"] == {**given, "table": "sales.orders"}
    case.until_ready(ORDERS)
    assert uri not in str(case.catalog())


def test_a_dead_catalog_does_not_hold_up_tables(case: CatalogCase) -> None:
    with DeadEndpoints(1) as dead:
        (url,) = dead.urls
        for number in range(3):
            given = {"type": "rest", "uri": url}
            case.declare_catalog(f"dead{number}", location=None, catalog=given)
        case.declare_catalog()
        case.start()
        case.until_owned(ORDERS, LINES)
        case.until_ready(ORDERS)
        case.until(
            lambda: case.catalog_condition(name="dead0").get("reason") == "StorageUnavailable",
            "the dead one is reported",
            timeout_s=40.0,
        )


def test_a_spec_that_is_not_valid_is_reported_and_the_tables_stay(case: CatalogCase) -> None:
    case.declare_catalog()
    case.start()
    case.until_owned(ORDERS, LINES)
    case.declare_catalog(services={"maintenanceWindow": "0 0 30 2 *"})
    case.until(lambda: case.catalog_condition().get("reason") == "SpecInvalid", "it is not valid")
    assert sorted(case.owned()) == sorted((ORDERS, LINES))
