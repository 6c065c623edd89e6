"""Catalogs of a process's own configuration: it names code and files, and what it keeps for one
server goes to no other. What the catalog and its tables say is data all the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tideline.errors import (
    ConfigError,
    StorageUnavailableError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.named_places import SETTING
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import (
    CODE_MODULE,
    TOKEN,
    HostileCatalog,
    dangerous_properties,
    ending_programs,
    overriding,
    table_metadata,
)

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_search import list_tables
from tideline.iceberg.table.catalog_table import CatalogTable

VARIABLE = "PYICEBERG_CATALOG__LAKE__"


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileCatalog]:
    with HostileCatalog("s3://bucket/orders") as catalog:
        monkeypatch.setenv(f"{VARIABLE}URI", catalog.url)
        monkeypatch.setenv(f"{VARIABLE}TOKEN", TOKEN)
        yield catalog


def test_the_environment_describes_a_catalog(catalog: HostileCatalog) -> None:
    open_catalog("lake")
    assert catalog.received[0].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("name", "text"),
    [("TOKEN", TOKEN), ("CREDENTIAL", "a:secret-b"), ("HEADER.X-A", "x"), ("REST.SIGV4", "true")],
)
def test_its_credentials_go_to_no_other_server(
    name: str, text: str, catalog: HostileCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{VARIABLE}TOKEN")
    monkeypatch.setenv(f"{VARIABLE}{name}", text)
    with HostileCatalog("s3://bucket/orders") as other:
        with pytest.raises(ConfigError, match="is not sent to") as caught:
            open_catalog("lake", {"uri": other.url})
        assert "secret-b" not in str(caught.value)
        assert other.received == []
        monkeypatch.delenv(f"{VARIABLE}{name}")
        open_catalog("lake", {"uri": other.url})
        assert len(other.received) == 1
    assert catalog.received == []


def test_a_file_in_the_current_directory_configures_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, home = tmp_path / "lake", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    with HostileCatalog("s3://bucket/orders") as catalog:
        text = f"catalog:\n  lake:\n    uri: {catalog.url}\n    token: from-a-file\n"
        (folder / ".pyiceberg.yaml").write_text(text)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.delenv("PYICEBERG_HOME", raising=False)
        monkeypatch.chdir(folder)
        with pytest.raises(ConfigError, match="URI missing"):
            open_catalog("lake")
        assert "set PYICEBERG_HOME" in caplog.text
        assert catalog.received == []
        monkeypatch.setenv("PYICEBERG_HOME", str(folder))
        open_catalog("lake")
        assert catalog.received[0].headers["Authorization"] == "Bearer from-a-file"


class Database:
    """An SQL catalog with one table, whose metadata file says what is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uri = f"sqlite:///{folder}/catalog.db"
        self._catalog = SqlCatalog("lake", uri=self.uri)
        self._catalog.create_namespace("shop")

    def keep(self, properties: dict[str, str], *, place: str = "orders") -> None:
        document = table_metadata(f"file://{self.folder}/{place}")
        document["properties"] = properties
        path = self.folder / "orders" / "metadata" / "00000-a.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
        self.point_to(f"file://{path}")

    def point_to(self, location: str) -> None:
        from sqlalchemy import text

        with self._catalog.engine.begin() as connection:
            connection.execute(text("delete from iceberg_tables"))
            connection.execute(
                text(
                    "insert into iceberg_tables (catalog_name, table_namespace, table_name, "
                    "metadata_location) values ('lake', 'shop', 'orders', :location)"
                ),
                {"location": location},
            )

    def table(self) -> CatalogTable:
        return CatalogTable(open_catalog("lake", {"uri": self.uri}), "shop.orders",
                            clock=FakeClock())  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path)


@pytest.mark.parametrize("name", dangerous_properties("http://127.0.0.1:9"))
def test_properties_of_a_table_in_a_database_run_nothing(name: str, database: Database) -> None:
    value = dangerous_properties("http://127.0.0.1:9")[name]
    database.keep({name: value if isinstance(value, str) else json.dumps(value)})
    table = database.table()
    outcome = table.commit(table.load(), (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Committed)
    assert table.load().metadata.properties["a"] == "b"
    assert CODE_MODULE not in sys.modules


@pytest.mark.parametrize("program", ending_programs())
def test_programs_that_a_table_names_do_not_end_the_process(
    program: str, database: Database
) -> None:
    names = ("py-io-impl", "write.py-location-provider.impl", "s3.retry-strategy-impl")
    database.keep(dict.fromkeys(names, program))
    table = database.table()
    assert isinstance(table.commit(table.load(), (), (SetProperties({"a": "b"}),)), Committed)


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "/dev/zero", "file:///dev/zero", "http://127.0.0.1:9/a.metadata.json",
     "file:///proc/self/environ", "gs://b/a.metadata.json", "x", "file:///dev/a.metadata.json"],
)  # fmt: skip
def test_a_database_that_points_elsewhere_has_nothing_read(
    location: str, database: Database
) -> None:
    database.point_to(location)
    with pytest.raises(TidelineError):
        database.table().load()


@pytest.mark.parametrize("named", [True, False])
def test_a_folder_of_this_machine_is_read_where_the_configured_warehouse_is(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"file://{tmp_path}/warehouse"
    with HostileCatalog(f"{place}/orders") as catalog:
        monkeypatch.setenv(f"{VARIABLE}URI", catalog.url)
        monkeypatch.setenv(f"{VARIABLE}WAREHOUSE", place if named else "lake")
        # What the server answers names no folder, even where it is the right one.
        catalog.alter("config", overriding({"warehouse": place}))
        table = CatalogTable(open_catalog("lake"), "shop.orders")
        if named:
            assert table.load().metadata.location == f"{place}/orders"
            return
        with pytest.raises(UnsupportedTableError, match=SETTING):
            table.load()


@pytest.mark.parametrize("place", ["victim", "", "orders/../victim", "orders-of-others"])
def test_the_place_of_a_table_in_a_database_is_that_of_its_metadata_file(
    place: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything at a table's place is read, and deleted, as the table's own."""
    database.keep({}, place=place)
    with pytest.raises(UnsupportedTableError, match=rf"{SETTING} .*{place}"):
        database.table().load()
    if ".." in place:
        return
    monkeypatch.setenv(SETTING, f"{database.folder}/{place}")
    assert database.table().load().metadata.location.endswith(place)


def test_a_property_of_a_table_in_a_database_has_no_file_written_elsewhere(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = database.folder / "victim"
    database.keep({"write.metadata.path": f"file://{elsewhere}"})
    table = database.table()
    with pytest.raises(UnsupportedTableError, match=SETTING):
        table.commit(table.load(), (), (SetProperties({"a": "b"}),))
    assert not elsewhere.exists()
    monkeypatch.setenv(SETTING, f"{elsewhere},{database.folder}/orders")
    outcome = table.commit(table.load(), (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Committed)
    assert list(elsewhere.glob("*.metadata.json"))
    assert table.load().metadata.properties["a"] == "b"


def test_a_property_that_comes_while_a_commit_begins_has_no_file_written_elsewhere(
    database: Database,
) -> None:
    elsewhere = database.folder / "victim"
    database.keep({})
    table = database.table()
    base = table.load()
    database.keep({"write.metadata.path": f"file://{elsewhere}"})
    assert not isinstance(table.commit(base, (), (SetProperties({"a": "b"}),)), Committed)
    assert not elsewhere.exists()


def test_types_of_catalogs_that_read_files_themselves_are_refused() -> None:
    for kind in ("dynamodb", "bigquery", "in-memory", "nonsense"):
        with pytest.raises(ConfigError, match="type"):
            open_catalog("other", {"type": kind, "uri": "http://127.0.0.1:9"})


class EndingCatalog(SqlCatalog):
    """A program that configuration names, which ends its process."""

    def __init__(self, name: str, **properties: str) -> None:
        if properties.get("when") == "opened":
            raise SystemExit(3)
        super().__init__(name, **properties)

    def load_table(self, *_: object) -> NoReturn:
        raise SystemExit(3)

    def list_namespaces(self, *_: object) -> NoReturn:
        raise SystemExit(3)


@pytest.mark.parametrize("when", ["opened", "asked"])
def test_a_client_that_ends_the_process_is_an_error(when: str, database: Database) -> None:
    program = f"{__name__}.{EndingCatalog.__name__}"
    properties = {"uri": database.uri, "py-catalog-impl": program, "when": when}
    if when == "opened":
        with pytest.raises(ConfigError, match="cannot be opened"):
            open_catalog("lake", properties)
        return
    opened = open_catalog("lake", properties)
    with pytest.raises(StorageUnavailableError):
        CatalogTable(opened, "shop.orders").load()
    with pytest.raises(StorageUnavailableError):
        list_tables(opened)
