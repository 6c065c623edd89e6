"""Iceberg tables in a Glue catalog: read, changed, created, published, beside PyIceberg's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.errors import (
    ConfigError,
    StorageUnavailableError,
    TableExistsError,
    TableNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.table_operations import Committed, Conflicted
from tideline.publication.operations import UnconfiguredCatalogError
from tideline.testing.glue_server import GlueFaultError, GlueRequest, GlueServer, LostAnswerError
from tideline.testing.library_apart import BOTO3, import_from, prepare_library

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_search import list_tables

COLUMNS = pa.schema(
    [("id", pa.int64()), ("Region", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
NAME = "shop.orders"
VARIABLE = "PYICEBERG_CATALOG__LAKE__"
SECRET = "secret-of-the-process-2026"


@dataclass(frozen=True)
class Glue:
    """A catalog that this process's configuration names, with its tables in a folder."""

    server: GlueServer
    folder: Path

    def create(self, **definition: Any) -> tideline.IcebergLakeTable:
        return tideline.create_iceberg(NAME, COLUMNS, catalog="lake", key="id", **definition)

    def open(self) -> tideline.IcebergLakeTable:
        return tideline.open_iceberg(NAME, catalog="lake")

    @property
    def entry(self) -> dict[str, Any]:
        return self.server.tables["shop", "orders"]


def rows(*numbers: int, region: str = "EU") -> pa.Table:
    return pa.table({"id": list(numbers), "Region": [region] * len(numbers)})


def ids(table: tideline.IcebergLakeTable) -> list[int]:
    table.refresh()
    return sorted(table.to_arrow(["id"])["id"].to_pylist())


@pytest.fixture(scope="module")
def server() -> Iterator[GlueServer]:
    with GlueServer(page=2) as server:
        yield server


@pytest.fixture
def glue(server: GlueServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    server.forget()
    given = {"TYPE": "glue", "GLUE__ENDPOINT": server.url, "GLUE__REGION": "eu-west-1",
             "WAREHOUSE": f"file://{tmp_path}/warehouse"}  # fmt: skip
    for name, text in given.items():
        monkeypatch.setenv(f"{VARIABLE}{name}", text)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-process")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    yield Glue(server, tmp_path)
    assert SECRET not in str([(seen.content, seen.headers) for seen in server.received])


@pytest.fixture(scope="module")
def peer(server: GlueServer) -> Any:
    """PyIceberg's own Glue catalog, by boto3."""
    import_from(prepare_library(BOTO3), "boto3")
    from pyiceberg.catalog.glue import GlueCatalog

    return GlueCatalog(
        "peer",
        **{
            "glue.endpoint": server.url,
            "glue.region": "eu-west-1",
            "glue.access-key-id": "of-the-peer",
            "glue.secret-access-key": "secret-of-the-peer",
        },
    )


def append_by(peer: Any, *numbers: int) -> None:
    table = peer.load_table(NAME)
    given = rows(*numbers).append_column("at", pa.nulls(len(numbers), COLUMNS.field("at").type))
    table.append(given.cast(table.schema().as_arrow()))


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_is_created_changed_and_maintained_beside_pyiceberg(
    glue: Glue, peer: Any, version: int
) -> None:
    table = glue.create(format_version=version, partition_by="Region")
    with pytest.raises(TableExistsError):
        glue.create()
    table.write(rows(1, 2, 3))
    if version < 3:
        append_by(peer, 4, 5)
    else:
        # PyIceberg writes no version 3; it reads it.
        glue.open().write(rows(4, 5))
    glue.open().write(rows(2, 6, region="US"), "upsert")
    assert ids(table) == [1, 2, 3, 4, 5, 6]
    assert sorted(peer.load_table(NAME).scan().to_arrow()["id"].to_pylist()) == ids(table)
    table.rewrite(options={"rewrite-all": "true"})
    table.expire(older_than=timedelta(0), retain_last=1)
    assert table.check() == ()
    assert ids(glue.open()) == [1, 2, 3, 4, 5, 6]
    assert len(glue.open().snapshots) == 1
    names = [column["Name"] for column in glue.entry["StorageDescriptor"]["Columns"]]
    assert names == ["id", "Region", "at"]
    assert list_tables(open_catalog("lake"))[0].parts == ("shop", "orders")
    assert glue.server.archived == []


def test_what_else_glue_has_of_a_table_stays(glue: Glue) -> None:
    table = glue.create()
    glue.entry["Parameters"]["owner.team"] = "shop"
    entry = glue.entry
    entry |= {"Description": "of the shop", "Owner": "me", "CreateTime": 1.5, "Retention": 0}
    table.write(rows(1))
    assert glue.entry["Parameters"]["owner.team"] == "shop"
    assert (glue.entry["Description"], glue.entry["Owner"]) == ("of the shop", "me")
    assert "CreateTime" not in glue.server.received[-1].content.get("TableInput", {})
    before = glue.entry["Parameters"]
    table.write(rows(2))
    after = glue.entry["Parameters"]
    assert after["previous_metadata_location"] == before["metadata_location"]


def test_two_writers_at_once_both_commit(glue: Glue, peer: Any) -> None:
    table = glue.create()
    beside = glue.open()
    left = [lambda: append_by(peer, 9)]

    def first(request: GlueRequest) -> None:
        if request.action == "UpdateTable" and left:
            left.pop()()

    glue.server.before = first
    table.write(rows(1))
    assert ids(beside) == [1, 9]
    stale = beside.table.loaded
    operations = beside.table.operations
    table.write(rows(2))
    outcome = operations.commit(stale, (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Committed), "a change without a requirement fits any state"


def test_the_other_of_two_updates_of_one_version_is_refused(glue: Glue) -> None:
    table = glue.create()
    table.write(rows(1))
    entry = glue.entry
    glue.server.before = lambda request: (
        glue.server.tables.update({("shop", "orders"): {**entry, "VersionId": "99"}})
        if request.action == "UpdateTable"
        else None
    )
    operations = table.table.operations
    loaded = operations.load()
    outcome = operations.commit(loaded, (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Conflicted)
    assert "ConcurrentModificationException" in outcome.reason


def on(action: str, error: Exception, count: int = 1) -> Callable[[GlueRequest], None]:
    left = [error] * count

    def raises(request: GlueRequest) -> None:
        if request.action == action and left:
            raise left.pop()

    return raises


def test_a_commit_whose_answer_is_lost_is_found(glue: Glue) -> None:
    """A process that dies after the update leaves the same: the commit is there."""
    table = glue.create()
    for error in (LostAnswerError(), GlueFaultError("InternalServiceException", status=500)):
        glue.server.after = on("UpdateTable", error)
        table.write(rows(1))
    glue.server.before = on("UpdateTable", GlueFaultError("OperationTimeoutException"))
    glue.server.after = lambda _: None
    assert ids(table) == [1, 1]


def test_a_commit_that_did_not_take_place_leaves_no_rows(glue: Glue) -> None:
    table = glue.create()
    before = {path for path in glue.folder.rglob("*") if path.suffix in (".parquet", ".avro")}
    for code, words in (
        ("AccessDeniedException", "denies access.*not authorized"),
        ("EntityNotFoundException", "no such table"),
        ("ResourceNumberLimitExceededException", "rejects the change"),
    ):
        fault = GlueFaultError(code, "not authorized to perform: glue:UpdateTable")
        glue.server.before = on("UpdateTable", fault)
        with pytest.raises(TidelineError, match=words) as refused:
            table.write(rows(1))
        assert SECRET not in str(refused.value)
    found = {path for path in glue.folder.rglob("*") if path.suffix in (".parquet", ".avro")}
    assert found == before
    assert ids(table) == []


def test_what_is_no_iceberg_table_is_named(glue: Glue) -> None:
    table = glue.create()
    with pytest.raises(TableNotFoundError):
        tideline.open_iceberg("shop.others", catalog="lake")
    with pytest.raises(TableNotFoundError):
        tideline.open_iceberg("elsewhere.orders", catalog="lake")
    with pytest.raises(TableNotFoundError, match="no such table"):
        tideline.open_iceberg("one.level.too.many", catalog="lake")
    kept = dict(glue.entry["Parameters"])
    for parameters, words in (
        ({"spark.sql.sources.provider": "hudi"}, "no Iceberg table, but one of hudi"),
        ({}, "no Iceberg table, but one of EXTERNAL_TABLE"),
        ({"table_type": "DELTA"}, "one of DELTA"),
        ({"table_type": "ICEBERG"}, "has no metadata_location"),
    ):
        glue.entry["Parameters"] = parameters
        with pytest.raises(UnsupportedTableError, match=words):
            glue.open()
        assert list_tables(open_catalog("lake")) == () or "ICEBERG" in parameters.values()
    glue.entry["Parameters"] = kept
    glue.server.before = on("GetTable", GlueFaultError("AccessDeniedException", "no"), 9)
    with pytest.raises(StorageUnavailableError, match="the catalog denies access"):
        table.refresh()


def test_a_parameter_leads_nowhere_else(glue: Glue, tmp_path: Path) -> None:
    """Anybody who may write to the table in Glue may write its parameters."""
    glue.create().write(rows(1))
    own = Path(glue.entry["Parameters"]["metadata_location"].removeprefix("file://"))
    victim = tmp_path / "victim" / "metadata" / own.name
    victim.parent.mkdir(parents=True)
    shutil.copy(own, victim)
    inside = tmp_path / "warehouse" / "elsewhere" / "metadata" / own.name
    inside.parent.mkdir(parents=True)
    shutil.copy(own, inside)
    for location in (
        f"file://{victim}",
        "file:///etc/passwd",
        "file:///proc/self/environ",
        f"file://{tmp_path}/warehouse/../victim/metadata/{own.name}",
        "http://127.0.0.1:9/a.metadata.json",
        "x",
    ):
        glue.entry["Parameters"]["metadata_location"] = location
        with pytest.raises(TidelineError):
            glue.open()


def test_options_that_are_credentials_are_refused_and_others_arrive(glue: Glue) -> None:
    glue.create()
    with pytest.raises(ConfigError, match="looks like a credential"):
        open_catalog("lake", {"glue.secret-access-key": "x"})
    options = ["--catalog", "lake", "--catalog-option", "glue.id=123456789012"]
    assert run(["read", NAME, *options]) == 0
    assert glue.server.received[-1].content["CatalogId"] == "123456789012"
    authorization = glue.server.received[-1].headers["authorization"]
    assert "Credential=of-the-process/" in authorization
    assert "/eu-west-1/glue/aws4_request" in authorization


def test_a_hudi_table_is_published_where_configuration_has_the_catalog(
    glue: Glue, peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = glue.folder / "warehouse" / "stops"
    table = tideline.create(str(folder), record_key="id")
    table.write(pa.table({"id": [1, 2], "v": [1, 2]}))
    assert run(["publish", str(folder), "--catalog", "lake", "--identifier", "shop.stops",
                "--always"]) == 0  # fmt: skip
    assert sorted(peer.load_table("shop.stops").scan().to_arrow()["v"].to_pylist()) == [1, 2]
    report = table.write(pa.table({"id": [3], "v": [3]}))
    assert "published as Iceberg snapshot" in report.notes[0]
    assert sorted(peer.load_table("shop.stops").scan().to_arrow()["v"].to_pylist()) == [1, 2, 3]
    count = len(glue.server.received)
    monkeypatch.delenv(f"{VARIABLE}TYPE")
    with pytest.raises(UnconfiguredCatalogError, match="names no such catalog"):
        tideline.open(str(folder)).publish()
    assert len(glue.server.received) == count
