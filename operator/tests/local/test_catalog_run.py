"""`tideline run` maintains the tables of a folder, and of a catalog, by one policy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.iceberg.table.open_table import IcebergTable
from tideline.storage.location import StoreLocation
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.local.catalog_tables import CatalogTables
from tideline_operator.resources.loading import load_resources
from tideline_operator.testing.local_run import run_apart

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
APPENDS = 6
NAMES = ("sales.orders", "sales.order_lines", "tmp.scratch")
SERVICES = """
  exclude: ["tmp.*"]
  services:
    expireSnapshots: {olderThan: 1ms, retainLast: 1}
    quietFor: 1ms
    removeOrphanFiles: {enabled: false}
"""
STORE = """
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {{name: minio}}
spec: {{endpoint: "{endpoint}"}}
"""
FOLDER = "apiVersion: tideline.dev/v1alpha1\nkind: LakeCatalog\nmetadata: {name: lake}\nspec:\n"


def fill(catalog: Catalog, *names: str) -> None:
    """Tables of many small files."""
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    for name in names:
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        if catalog.table_exists(name):
            catalog.drop_table(name)
        table = catalog.create_table(name, rows.schema)
        for _ in range(APPENDS):
            table.append(rows)


def sql_catalog(folder: Path) -> SqlCatalog:
    return SqlCatalog(
        "shop", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )


def without_catalog(catalog: SqlCatalog, *names: str) -> None:
    """Make the tables folders of their own, as a catalog of files would have left them."""
    for name in names:
        table = catalog.load_table(name)
        newest = Path(table.metadata_location.removeprefix("file://"))
        kept = newest.read_bytes()
        for path in newest.parent.glob("*.metadata.json"):
            path.unlink()
        (newest.parent / "v1.metadata.json").write_bytes(kept)
        (newest.parent / "version-hint.text").write_text("1")


def run(folder: Path, *options: str, exit_code: int = 0) -> list[dict[str, Any]]:
    """The events of a run."""
    return run_apart(folder, "lake.yaml", *options, code=exit_code)


def finished(events: list[dict[str, Any]]) -> set[tuple[str, str]]:
    ends = [event for event in events if event["event"] == "finished"]
    assert [event for event in ends if event["outcome"] == "failed"] == []
    return {(event["table"], event["kind"]) for event in ends}


def expected(*kinds: str) -> set[tuple[str, str]]:
    tables = ("default/lake-sales-orders", "default/lake-sales-order-lines")
    return {(table, kind) for table in tables for kind in kinds}


def test_the_tables_of_a_folder_are_maintained(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    fill(catalog, *NAMES)
    without_catalog(catalog, *NAMES)
    (tmp_path / "lake.yaml").write_text(f"{FOLDER}  location: warehouse{SERVICES}")
    assert finished(run(tmp_path)) == expected("rewrite", "expire")
    counts = []
    for name in NAMES:
        folder = tmp_path / "warehouse" / name.replace(".", "/")
        location = IcebergTable.open(folder).loaded.metadata_location
        static = StaticTable.from_metadata(location)
        assert static.scan().to_arrow().num_rows == 10 * APPENDS
        counts.append((len(list(static.scan().plan_files())), len(static.snapshots())))
    assert counts == [(1, 1), (1, 1), (APPENDS, APPENDS)]
    assert finished(run(tmp_path)) == set()


def test_the_tables_of_an_sql_catalog_are_maintained(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    fill(catalog, *NAMES)
    place = f"  catalog: {{type: sql, name: shop, uri: 'sqlite:///{tmp_path}/catalog.db'}}"
    (tmp_path / "lake.yaml").write_text(f"{FOLDER}{place}{SERVICES}")
    check_catalog(tmp_path, catalog)


@pytest.mark.interop
@pytest.mark.usefixtures("catalogs_name_folders")
def test_the_tables_of_a_rest_catalog_are_maintained(
    tmp_path: Path, iceberg_rest_server: Any
) -> None:
    catalog = RestCatalog("shop", uri=iceberg_rest_server.uri)
    fill(catalog, *NAMES)
    place = f"  catalog: {{type: rest, name: shop, uri: '{iceberg_rest_server.uri}'}}"
    only = '  include: ["sales.order*", "tmp.scratch"]'
    (tmp_path / "lake.yaml").write_text(f"{FOLDER}{place}\n{only}{SERVICES}")
    check_catalog(tmp_path, catalog)


def test_the_example_runs_as_the_docs_say(tmp_path: Path) -> None:
    commands = (EXAMPLES / "iceberg" / "lakecatalog.yaml", EXAMPLES / "iceberg" / "make_catalog.py")
    page = (EXAMPLES.parent / "docs" / "iceberg.md").read_text()
    assert all(f"examples/iceberg/{path.name}" in page for path in commands)
    made = [sys.executable, str(commands[1]), "out/lake"]
    subprocess.run(made, cwd=tmp_path, check=True, capture_output=True)
    shutil.copy(commands[0], tmp_path / "lake.yaml")
    events = run(tmp_path, "--state", "out/lake/state")
    names = ("sales-orders", "sales-returns", "stock-levels")
    rewritten = {table for table, kind in finished(events) if kind == "rewrite"}
    assert rewritten == {f"default/lake-{name}" for name in names}
    assert (tmp_path / "out/lake/state/default.lake-sales-orders.status.json").exists()


def check_catalog(folder: Path, catalog: Catalog) -> None:
    planned = [event for event in run(folder, "--dry-run") if event["event"] == "planned"]
    assert {event["table"] for event in planned} == {table for table, _ in expected("rewrite")}
    assert finished(run(folder)) == expected("rewrite", "expire")
    tables = [catalog.load_table(name) for name in NAMES]
    assert [table.scan().to_arrow().num_rows for table in tables] == [10 * APPENDS] * 3
    assert [len(list(table.scan().plan_files())) for table in tables] == [1, 1, APPENDS]
    assert [len(table.snapshots()) for table in tables] == [1, 1, APPENDS]


@pytest.mark.minio
def test_the_tables_of_a_bucket_are_maintained(tmp_path: Path, s3_location: StoreLocation) -> None:
    store = s3_location.open()
    names = ("sales/orders", "tmp/scratch")
    for name in names:
        made = IcebergModel.create()
        for number in range(APPENDS):
            made.append(range(number * 2, number * 2 + 2))
        for info in made.location.open().list():
            store.put(f"{name}/{info.path}", made.location.open().get(info.path))
    endpoint = dict(s3_location.options)["endpoint"]
    place = f"  location: {s3_location.uri}\n  storeRef: minio"
    policy = SERVICES.replace("services:", "services:\n    rewriteDataFiles: {enabled: false}")
    text = f"{FOLDER}{place}{policy}\n---\n{STORE.format(endpoint=endpoint)}"
    (tmp_path / "lake.yaml").write_text(text)
    assert finished(run(tmp_path)) == {("default/lake-sales-orders", "expire")}
    kept = []
    for name in names:
        table = StoreLocation.of(f"{s3_location.uri}/{name}", dict(s3_location.options))
        kept.append(len(IcebergTable(FileSystemTable(table)).metadata.snapshots))
    assert kept == [1, APPENDS]


def test_a_catalog_that_cannot_be_listed_ends_the_run_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "warehouse/metadata").mkdir(parents=True)
    (tmp_path / "warehouse/metadata/v1.metadata.json").write_text("{}")
    (tmp_path / "lake.yaml").write_text(f"{FOLDER}  location: warehouse{SERVICES}")
    events = run(tmp_path, exit_code=2)
    assert "cannot be listed: this folder is a table" in json.dumps(events)


OWN = """
---
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: lake-sales-order-lines}
spec: {format: Iceberg, location: warehouse/sales/orders}
"""


class Looked:
    """The tables of a folder of empty tables, looked at by a clock that tests move."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.catalogs = CatalogTables(self.clock)
        self.notes: list[str] = []

    def create(self, *names: str) -> None:
        for name in names:
            path = self.folder / "warehouse" / name.replace(".", "/") / "metadata"
            path.mkdir(parents=True)
            (path / "v1.metadata.json").write_text("{}")

    def look(self, more: str = "", every: str = "5m") -> list[str]:
        text = f"{FOLDER}  location: warehouse\n  every: {every}{SERVICES}{more}"
        (self.folder / "lake.yaml").write_text(text)
        resources = load_resources([self.folder / "lake.yaml"])
        self.catalogs.look(resources.catalogs, resources.tables, self.notes.append)
        return [table.name for table in self.catalogs.tables]


@pytest.fixture
def looked(tmp_path: Path) -> Looked:
    return Looked(tmp_path)


def test_new_and_dropped_tables_are_noticed_when_a_look_is_due(looked: Looked) -> None:
    looked.create(*NAMES)
    names = ["default/lake-sales-order-lines", "default/lake-sales-orders"]
    assert looked.look() == names
    assert looked.notes == ["LakeCatalog default/lake: 3 tables, 2 maintained, 1 excluded"]
    looked.create("sales.returns")
    shutil.rmtree(looked.folder / "warehouse/sales/orders")
    looked.clock.advance(299)
    assert looked.look() == names
    looked.clock.advance(2)
    assert looked.look() == [names[0], "default/lake-sales-returns"]


def test_a_table_with_a_laketable_of_its_own_is_left_to_it_and_names_stay_apart(
    looked: Looked,
) -> None:
    looked.create(*NAMES)
    (name,) = looked.look(OWN)
    assert name.startswith("default/lake-sales-order-lines-")
    assert looked.notes[0].endswith("3 tables, 1 maintained, 1 excluded, 1 left to others")


def test_a_second_catalog_leaves_what_the_first_has(looked: Looked) -> None:
    looked.create(*NAMES)
    second = "---\n" + FOLDER.replace("lake}", "whole}") + "  location: warehouse\n"
    assert looked.look(second) == [
        "default/lake-sales-order-lines",
        "default/lake-sales-orders",
        "default/whole-tmp-scratch",
    ]


def test_the_tables_stay_while_a_catalog_cannot_be_listed(looked: Looked) -> None:
    looked.create(*NAMES)
    names = looked.look()
    inner = looked.folder / "warehouse/metadata"
    inner.mkdir()
    (inner / "v1.metadata.json").write_text("{}")
    looked.clock.advance(301)
    assert looked.look() == names
    (problem,) = looked.catalogs.problems
    assert problem.exit_code == 2
    shutil.rmtree(inner)
    looked.clock.advance(31)
    assert looked.look() == names
    assert looked.catalogs.problems == ()
