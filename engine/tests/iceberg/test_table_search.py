"""The tables of a folder and of a catalog, found."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.iceberg.table import folder_search
from tideline.iceberg.table.folder_search import KEPT_BY_CATALOG, find_tables
from tideline.iceberg.table.found_table import FoundTable
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog

from tideline.iceberg.table.catalog_search import UNWRITABLE_NAME, list_tables


def store_with(*paths: str) -> ObjectStore:
    store = StoreLocation.of(f"memory://{uuid.uuid4().hex}/lake").open()
    for path in paths:
        store.put(path, b"{}")
    return store


def test_tables_are_folders_with_metadata_of_their_own() -> None:
    store = store_with(
        "sales/orders/metadata/version-hint.text",
        "sales/orders/data/sales/inner/metadata/v1.metadata.json",
        "sales/eu/lines/metadata/v3.gz.metadata.json",
        "loose/metadata/v1.metadata.json",
        "shop/kept/metadata/00001-abc.metadata.json",
        "empty/metadata/readme.txt",
        "_hidden/table/metadata/v1.metadata.json",
        ".trash/table/metadata/v1.metadata.json",
    )
    assert find_tables(store) == (
        FoundTable(("loose",)),
        FoundTable(("sales", "eu", "lines")),
        FoundTable(("sales", "orders")),
        FoundTable(("shop", "kept"), KEPT_BY_CATALOG),
    )


@pytest.mark.minio
def test_tables_of_a_bucket_are_found(s3_location: StoreLocation) -> None:
    store = s3_location.open()
    for name in ("sales/orders", "sales/eu/lines"):
        store.put(f"{name}/metadata/v1.metadata.json", b"{}")
        store.put(f"{name}/data/part.parquet", b"rows")
    store.put("notes.txt", b"")
    assert [table.name for table in find_tables(store)] == ["sales.eu.lines", "sales.orders"]


def test_a_hudi_table_is_none_even_when_it_is_published() -> None:
    store = store_with("a/b/.hoodie/hoodie.properties", "a/b/metadata/v1.metadata.json")
    assert find_tables(store) == ()


def test_a_folder_that_is_a_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="is a table, not a folder of tables"):
        find_tables(store_with("metadata/v1.metadata.json"))


def test_a_folder_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_search, "FOLDERS_MAX", 3)
    with pytest.raises(ConfigError, match="more than 3 folders"):
        find_tables(store_with(*(f"folder{number}/file" for number in range(5))))
    monkeypatch.setattr(folder_search, "FOLDERS_MAX", 100)
    deep = "/".join("abcdefghijkl")
    assert find_tables(store_with(f"{deep}/metadata/v1.metadata.json")) == ()


def test_a_store_that_does_not_answer_is_an_error() -> None:
    store = FaultyStore(
        store_with("a/b/metadata/v1.metadata.json"), FaultPlan(unavailable_calls=frozenset({2}))
    )
    with pytest.raises(StorageUnavailableError):
        find_tables(store)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    schema = pa.schema([("id", pa.int64())])
    for namespace, name in ((("sales",), "orders"), (("sales", "eu"), "lines"), (("odd",), "a b")):
        made.create_namespace_if_not_exists(namespace)
        made.create_table((*namespace, name), schema)
    made.create_namespace("empty")
    return made


def test_every_namespace_of_a_catalog_is_looked_into(catalog: SqlCatalog) -> None:
    assert list_tables(catalog) == (
        FoundTable(("odd", "a b"), UNWRITABLE_NAME),
        FoundTable(("sales", "eu", "lines")),
        FoundTable(("sales", "orders")),
    )


def test_a_namespace_that_is_dropped_meanwhile_has_no_tables(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespaces = [*catalog.list_namespaces(), ("gone",)]
    plain = catalog.list_namespaces
    monkeypatch.setattr(
        catalog, "list_namespaces", lambda item=(): plain(item) if item else namespaces
    )
    assert len(list_tables(catalog)) == 3


@pytest.mark.parametrize("error", [ConnectionError("no"), RuntimeError("no")])
def test_a_catalog_that_does_not_answer_is_an_error(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(catalog, "list_tables", fail)
    with pytest.raises(StorageUnavailableError, match="does not answer"):
        list_tables(catalog)
