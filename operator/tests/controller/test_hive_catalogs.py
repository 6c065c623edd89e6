"""LakeTables and LakeCatalogs of a real Hive metastore: looked at through the operator's reading
processes, worked on as pods do, published to and registered in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.hive_metastore_server import HiveMetastoreServer
from tideline_operator.api_objects import LAKE_CATALOGS, LAKE_TABLES
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.local_run import run_apart

pytest.importorskip("pyiceberg")
pytest.importorskip("hive_metastore")

from pyiceberg.catalog import Catalog, load_catalog

from tideline.registration.hive import HiveMetastore
from tideline.registration.table_name import TableName

pytestmark = pytest.mark.slow

EXPIRING = {
    "rewriteDataFiles": {"enabled": False},
    "removeOrphanFiles": {"enabled": False},
    "expireSnapshots": {"olderThan": "1ms", "retainLast": 1},
}
NO_HUDI = {"location": None, "recordKey": None, "ordering": None, "schema": None, "ingest": None}
ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@dataclass(frozen=True)
class Shop:
    """A database of its own in the metastore, with its files in a folder."""

    uri: str
    database: str
    folder: Path

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's own: another writer."""
        options = {"type": "hive", "uri": self.uri, "hive.hive2-compatible": "true"}
        return load_catalog("theirs", **options, warehouse=self.warehouse)

    @property
    def warehouse(self) -> str:
        return (self.folder / "warehouse").as_uri()

    def append(self, name: str, times: int = 1) -> None:
        catalog, dotted = self.catalog, f"{self.database}.{name}"
        catalog.create_namespace_if_not_exists(self.database)
        if not catalog.table_exists(dotted):
            location = f"{self.warehouse}/{name}"
            catalog.create_table(dotted, ROWS.schema, location=location)
        for _ in range(times):
            catalog.load_table(dotted).append(ROWS)

    def rows(self, name: str) -> int:
        return len(self.catalog.load_table(f"{self.database}.{name}").scan().to_arrow())

    def spec(self, **more: str) -> dict[str, Any]:
        place = {"type": "hive", "uri": self.uri, "warehouse": self.warehouse}
        return {"catalog": {**place, **more}}


@pytest.fixture
def shop(tmp_path: Path, hive_metastore: HiveMetastoreServer) -> Shop:
    return Shop(hive_metastore.uri, f"d_{uuid.uuid4().hex[:8]}", tmp_path)


def executed(operation: Operation, folder: Path) -> OperationResult:
    """The outcome of an operation as its pod carries it out: by the command, from a file."""
    path = folder / f"{uuid.uuid4().hex}.json"
    path.write_text(json.dumps(operation.to_json_object()))
    done = subprocess.run(
        [sys.executable, "-m", "tideline", "execute", "--operation", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = OperationResult.from_json_object(json.loads(done.stdout))
    assert result.outcome is Outcome.SUCCEEDED, result.message
    return result


@pytest.mark.api_server
def test_a_table_of_a_metastore_is_found_and_maintained(case: ControllerCase, shop: Shop) -> None:
    name = f"{shop.database}.orders"
    case.declare("orders", format="Iceberg", services=EXPIRING, **NO_HUDI, **shop.spec(table=name))
    case.start()
    case.until(
        lambda: case.condition("Ready", "orders").get("reason") == "TableMissing", "it is missing"
    )
    # One look sees it whole: the next would be minutes later.
    shop.append("new", 3)
    shop.catalog.rename_table(f"{shop.database}.new", name)
    job = case.until_job("expire")
    case.cluster.finish(job, executed(case.cluster.operation_of(job), case.folder))
    case.until_ready("orders")
    case.until(lambda: case.status("orders")["timeline"]["completed"] == 1, "one is left")
    assert shop.rows("orders") == 30
    renamed = f"{shop.database}.returns"
    shop.catalog.rename_table(name, renamed)
    case.change("orders", {"spec": {"services": {"expireSnapshots": {"retainLast": 2}}}})
    case.until(lambda: case.condition("Ready", "orders").get("reason") == "TableMissing", "it went")
    assert shop.rows("returns") == 30


@pytest.mark.api_server
def test_the_tables_of_a_metastore_are_listed(case: ControllerCase, shop: Shop) -> None:
    for name in ("orders", "order_lines", "scratch"):
        shop.append(name)
    spec = {
        **shop.spec(),
        "include": [f"{shop.database}.*"],
        "exclude": ["*.scratch"],
        "every": "1s",
        "services": {"mode": "Off"},
    }
    manifest = {
        "apiVersion": LAKE_CATALOGS.api_version,
        "kind": LAKE_CATALOGS.kind,
        "metadata": {"name": "lake", "namespace": case.namespace},
        "spec": spec,
    }
    case.api.create(LAKE_CATALOGS, manifest, case.namespace)
    case.start()

    def owned() -> set[str]:
        found, _ = case.api.list(LAKE_TABLES, case.namespace, labels="tideline.dev/catalog=lake")
        return {item["spec"]["catalog"]["table"] for item in found}

    expected = {f"{shop.database}.{name}" for name in ("orders", "order_lines")}
    case.until(lambda: owned() == expected, "LakeTables of the two")
    (named, *_) = case.api.list(LAKE_TABLES, case.namespace)[0]
    case.until_ready(named["metadata"]["name"])
    shop.catalog.drop_table(f"{shop.database}.order_lines")
    case.until(lambda: owned() == {f"{shop.database}.orders"}, "the other went")


def run(folder: Path, *documents: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of `tideline run --once`."""
    (folder / "lake.yaml").write_text(yaml.safe_dump_all(documents))
    return run_apart(folder, "lake.yaml")


def declared(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tideline.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def land(folder: Path, name: str, *ids: int) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    path = folder / "landing" / f"{name}.parquet"
    pq.write_table(pa.table({"id": list(ids), "day": ["d"] * len(ids)}), path)
    os.utime(path, (1_700_000_000, 1_700_000_000))


INGEST = {
    "recordKey": ["id"],
    "ingest": [
        {
            "name": "landing",
            "source": {"format": "parquet", "path": "landing"},
            "trigger": {"every": "1s"},
        }
    ],
}


def test_a_hudi_table_is_published_and_registered(
    shop: Shop, hive_metastore: HiveMetastoreServer
) -> None:
    table = declared(
        "LakeTable",
        "trips",
        location="trips",
        partitionBy=["day"],
        publish=["Iceberg"],
        **shop.spec(table=f"{shop.database}.trips_iceberg"),
        sync=[{"hive": {"uri": shop.uri, "database": shop.database}}],
        **INGEST,
    )
    metastore = HiveMetastore.at(hive_metastore.uri)
    name = TableName(shop.database, "trips")
    for number, ids in enumerate(([1, 2], [2, 3])):
        land(shop.folder, f"f{number}", *ids)
        events = run(shop.folder, table)
        assert not [event for event in events if event.get("outcome") == "failed"]
        found = shop.catalog.load_table(f"{shop.database}.trips_iceberg")
        assert sorted(found.scan().to_arrow()["id"].to_pylist()) == list(range(1, max(ids) + 1))
        registered = metastore.table(name)
        assert registered is not None
        assert [each.values for each in metastore.partitions(registered)] == [("d",)]
    assert len(found.snapshots()) == 2


def test_rows_are_taken_into_an_iceberg_table_of_a_metastore(shop: Shop) -> None:
    table = declared(
        "LakeTable",
        "orders",
        format="Iceberg",
        **shop.spec(table=f"{shop.database}.orders"),
        **INGEST,
    )
    shop.catalog.create_namespace(shop.database)
    for number, ids in enumerate(([1, 2], [2, 3])):
        land(shop.folder, f"f{number}", *ids)
        run(shop.folder, table)
    rows = shop.catalog.load_table(f"{shop.database}.orders").scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == [1, 2, 3]


def test_the_tables_of_a_metastore_are_maintained_by_run(shop: Shop) -> None:
    for name in ("orders", "scratch"):
        shop.append(name, 6)
    policy = declared(
        "LakeCatalog",
        "lake",
        include=[f"{shop.database}.*"],
        exclude=["*.scratch"],
        services={
            "expireSnapshots": {"olderThan": "1ms", "retainLast": 1},
            "quietFor": "1ms",
            "removeOrphanFiles": {"enabled": False},
        },
        **shop.spec(),
    )
    ends = [event for event in run(shop.folder, policy) if event["event"] == "finished"]
    assert {event["kind"] for event in ends} == {"rewrite", "expire"}
    assert {event["outcome"] for event in ends} == {"succeeded"}
    assert shop.rows("orders") == 60
    (kept,) = shop.catalog.load_table(f"{shop.database}.orders").snapshots()
    assert kept.summary is not None
    assert len(shop.catalog.load_table(f"{shop.database}.scratch").snapshots()) == 6
