"""Tables that are published in a SQL or a REST catalog: PyIceberg finds and reads them there."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.errors import (
    ConfigError,
    StorageUnavailableError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.hudi.table.table_config import (
    ICEBERG,
    PUBLISH,
    PUBLISH_CATALOG,
    PUBLISH_CATALOG_URI,
    PUBLISH_IDENTIFIER,
)
from tideline.lake_table import LakeTable
from tideline.publication.published_table import PublishedTable
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.minio_server import MinioServer

pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

VARIABLE = "PYICEBERG_CATALOG__DEFAULT__URI"
MANUAL = {"hoodie.clean.automatic": "false", "hoodie.clean.commits.retained": "1"}


@dataclass(frozen=True)
class Case:
    """A catalog, and a Hudi table's folder."""

    uri: str
    client: type[Catalog]
    folder: Path
    identifier: str

    def create(self, **properties: str) -> LakeTable:
        given = {**MANUAL, **properties}
        return LakeTable.create(str(self.folder), record_key="id", properties=given)

    def create_published(self) -> LakeTable:
        named = {PUBLISH_IDENTIFIER: self.identifier, PUBLISH_CATALOG_URI: self.uri}
        return self.create(**{PUBLISH: ICEBERG}, **named)

    def publish(self, table: LakeTable | None = None, **given: Any) -> Any:
        table = table or LakeTable.open(str(self.folder))
        return table.publish(catalog=self.uri, identifier=self.identifier, **given)

    @property
    def catalog(self) -> Catalog:
        return load_catalog("default", uri=self.uri)

    def table(self) -> Table:
        return self.catalog.load_table(self.identifier)

    def values(self, snapshot_id: int | None = None) -> list[int]:
        found: list[int] = self.table().scan(snapshot_id=snapshot_id).to_arrow()["v"].to_pylist()
        return sorted(found)

    def data_files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.interop)])
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A catalog that the process's configuration names."""
    name = f"n{tmp_path.name}.flights"
    if request.param == "rest":
        server = request.getfixturevalue("iceberg_rest_server")
        monkeypatch.setenv(VARIABLE, server.uri)
        return Case(server.uri, RestCatalog, tmp_path / "t", name)
    (tmp_path / "db").mkdir()
    uri = f"sqlite:///{tmp_path}/db/catalog.db"
    monkeypatch.setenv(VARIABLE, uri)
    return Case(uri, SqlCatalog, tmp_path / "t", name)


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    (tmp_path / "db").mkdir()
    uri = f"sqlite:///{tmp_path}/db/catalog.db"
    monkeypatch.setenv(VARIABLE, uri)
    return Case(uri, SqlCatalog, tmp_path / "t", "shop.flights")


def row(v: int) -> pa.Table:
    return pa.table({"id": ["a"], "v": [v]})


def test_a_catalog_finds_the_table_and_the_table_remembers_where(case: Case) -> None:
    table = case.create()
    first = table.write(row(1))
    assert case.publish(dry_run=True).files_added == 1
    assert PUBLISH_IDENTIFIER not in LakeTable.open(str(case.folder)).hoodie_table.config.properties
    assert not (case.folder / "metadata").exists()
    assert case.publish(table).instant == first.instant
    assert case.values() == [1]
    table.write(row(2))
    assert LakeTable.open(str(case.folder)).publish().is_new
    assert case.values() == [2]
    assert not table.publish().is_new
    assert [case.values(snapshot.snapshot_id) for snapshot in case.table().snapshots()] == [
        [1],
        [2],
    ]
    assert not (case.folder / "metadata" / "version-hint.text").exists()


def test_every_commit_is_published_and_cleaning_drops_its_snapshots_first(case: Case) -> None:
    table = case.create_published()
    for v in range(1, 6):
        report = table.write(row(v))
        assert any("published as Iceberg snapshot" in note for note in report.notes), report.notes
        assert case.values() == [v]
    before = case.data_files()
    table.run("cleaning")
    assert set(case.data_files()) < set(before)
    assert [case.values(snapshot.snapshot_id) for snapshot in case.table().snapshots()] == [
        [4],
        [5],
    ]
    saved = table.savepoint()
    table.write(row(6))
    table.restore(saved.instant)
    assert case.values() == [5]


def test_columns_that_come_keep_their_ids(case: Case) -> None:
    table = case.create_published()
    table.write(row(1))
    before = {field.name: field.field_id for field in case.table().schema().fields}
    saved = table.savepoint()
    wider = pa.table({"id": ["b"], "v": [2], "note": ["new"]})
    table.write(wider)
    after = {field.name: field.field_id for field in case.table().schema().fields}
    assert after == before | {"note": max(after.values())}
    table.restore(saved.instant)
    table.write(wider)
    assert {field.name: field.field_id for field in case.table().schema().fields} == after
    assert case.values() == [1, 2]


@pytest.mark.parametrize("call", ["register_table", "commit_table"])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_death_around_what_the_catalog_does_is_healed(
    case: Case, call: str, is_after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = case.create()
    table.write(row(1))
    do = getattr(case.client, call)

    def die(self: Catalog, *args: Any, **kwargs: Any) -> Any:
        if is_after:
            do(self, *args, **kwargs)
        raise SimulatedCrash

    with monkeypatch.context() as patched, pytest.raises(SimulatedCrash):
        patched.setattr(case.client, call, die)
        case.publish(table)
    healed = case.publish()
    assert healed.is_new is not (is_after and call == "commit_table")
    assert case.values() == [1]
    assert not case.publish().is_new


def test_a_lost_race_is_run_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    table = case.create()
    table.write(row(1))
    case.publish(table)
    table.write(row(2))
    do, raced = case.client.commit_table, list[int]()

    def after_another(self: Catalog, *args: Any, **kwargs: Any) -> Any:
        if not raced:
            raced.append(1)
            other = LakeTable.open(str(case.folder))
            assert other.publish().is_new
            other.write(row(3))
        return do(self, *args, **kwargs)

    monkeypatch.setattr(case.client, "commit_table", after_another)
    newest = table.publish()
    assert newest.is_new
    assert case.values() == [3]
    assert [case.values(snapshot.snapshot_id) for snapshot in case.table().snapshots()] == [
        [1],
        [2],
        [3],
    ]


def test_two_that_publish_first_make_one_table(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    table = case.create()
    table.write(row(1))
    do, raced = case.client.register_table, list[int]()

    def after_another(self: Catalog, *args: Any, **kwargs: Any) -> Any:
        if not raced:
            raced.append(1)
            assert case.publish().is_new
        return do(self, *args, **kwargs)

    monkeypatch.setattr(case.client, "register_table", after_another)
    assert not case.publish(table).is_new
    assert case.values() == [1]


def unreachable(case: Case, environment: pytest.MonkeyPatch) -> None:
    table = LakeTable.open(str(case.folder)).hoodie_table
    table.properties.update({PUBLISH_CATALOG_URI: "http://127.0.0.1:9"})
    environment.setenv(VARIABLE, "http://127.0.0.1:9")


def unconfigured(_: Case, environment: pytest.MonkeyPatch) -> None:
    environment.delenv(VARIABLE)


def moved_away(case: Case, _: pytest.MonkeyPatch) -> None:
    (case.folder.parent / "db").rename(case.folder.parent / "elsewhere")


def made_anew(case: Case, _: pytest.MonkeyPatch) -> None:
    (case.folder.parent / "db" / "catalog.db").unlink()


def renamed(case: Case, _: pytest.MonkeyPatch) -> None:
    case.catalog.rename_table(case.identifier, "shop.departures")


@pytest.mark.parametrize(
    ("lose", "error", "words"),
    [
        (unreachable, StorageUnavailableError, "catalog cannot be reached"),
        (unconfigured, ConfigError, f"set {VARIABLE}.*--stop --drop"),
        (moved_away, ConfigError, "catalog cannot be opened"),
        (made_anew, ConfigError, "there is no publication of this table at shop.flights"),
        (renamed, ConfigError, "there is no publication of this table at shop.flights"),
    ],
)
def test_cleaning_deletes_nothing_while_the_catalog_is_not_there(
    lose: Callable[[Case, pytest.MonkeyPatch], None],
    error: type[TidelineError],
    words: str,
    sql: Case,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = sql.create_published()
    for v in range(1, 6):
        table.write(row(v))
    lose(sql, monkeypatch)
    before = sql.data_files()
    table = LakeTable.open(str(sql.folder))
    with pytest.raises(error, match=f"nothing was deleted.*{words}"):
        table.run("cleaning")
    assert sql.data_files() == before
    (note,) = table.write(row(6)).notes
    assert "publishing as Iceberg failed" in note
    assert re.search(words, note)


def test_a_table_that_was_renamed_in_its_catalog_is_named_anew(
    sql: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sql.create_published()
    for v in range(1, 6):
        table.write(row(v))
    renamed(sql, monkeypatch)
    before = sql.data_files()
    table.publish(catalog=sql.uri, identifier="shop.departures")
    table.run("cleaning")
    assert len(sql.data_files()) < len(before)
    assert len(sql.catalog.load_table("shop.departures").snapshots()) == 2


def test_a_table_has_one_publication(sql: Case) -> None:
    table = sql.create()
    table.write(row(1))
    sql.publish(table)
    with pytest.raises(ConfigError, match="give it up"):
        table.publish(catalog=sql.uri, identifier="shop.other")
    assert table.hoodie_table.properties.reload().properties[PUBLISH_IDENTIFIER] == "shop.flights"


def test_a_publication_in_the_folder_does_not_move_to_a_catalog(sql: Case) -> None:
    table = sql.create()
    table.write(row(1))
    table.publish()
    with pytest.raises(ConfigError, match="give it up"):
        sql.publish(table)
    table.stop_publishing(drop=True)
    sql.publish(table)
    assert sql.values() == [1]


def test_a_table_of_the_catalog_that_is_anothers_is_left_alone(sql: Case) -> None:
    first = sql.create()
    first.write(row(1))
    sql.publish(first)
    second = LakeTable.create(str(sql.folder.parent / "second"), record_key="id")
    second.write(row(2))
    with pytest.raises(UnsupportedTableError, match="not a publication of this one"):
        second.publish(catalog=sql.uri, identifier=sql.identifier)
    assert PUBLISH_IDENTIFIER not in second.hoodie_table.properties.reload().properties
    assert sql.values() == [1]


def test_credentials_are_not_kept_with_the_table(sql: Case) -> None:
    table = sql.create()
    with pytest.raises(ConfigError, match="PYICEBERG_CATALOG__DEFAULT__URI"):
        table.publish(catalog="postgresql://me:secret@db/lake", identifier="a.b")
    with pytest.raises(ConfigError, match="only type, uri, warehouse"):
        table.publish(catalog="lake", identifier="a.b", catalog_options={"token": "t"})
    with pytest.raises(ConfigError, match="namespace"):
        table.publish(catalog="lake", identifier="b")
    with pytest.raises(ConfigError, match="needs an identifier"):
        table.publish(catalog="lake")


def test_the_address_may_be_in_the_environment_alone(
    sql: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", sql.uri)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    table = sql.create()
    table.write(row(1))
    table.publish(catalog="lake", identifier=sql.identifier)
    properties = table.hoodie_table.properties.reload().properties
    assert properties[PUBLISH_CATALOG] == "lake"
    assert PUBLISH_CATALOG_URI not in properties
    assert load_catalog("lake").load_table(sql.identifier).scan().to_arrow()["v"].to_pylist() == [1]


def test_what_is_published_stays_and_is_looked_after_when_publishing_stops(sql: Case) -> None:
    table = sql.create_published()
    for v in range(1, 6):
        table.write(row(v))
    table.stop_publishing()
    assert table.write(row(6)).notes == ()
    assert sql.values() == [5]
    table.run("cleaning")
    assert [sql.values(snapshot.snapshot_id) for snapshot in sql.table().snapshots()] == [[5], [6]]


def test_a_publication_is_dropped_whole(case: Case) -> None:
    table = case.create_published()
    for v in range(1, 6):
        table.write(row(v))
    assert table.stop_publishing(drop=True) > 10
    with pytest.raises(NoSuchTableError):
        case.table()
    assert list((case.folder / "metadata").iterdir()) == []
    properties = LakeTable.open(str(case.folder)).hoodie_table.config.properties
    assert not any(name.startswith(PUBLISH) for name in properties)
    before = case.data_files()
    table.run("cleaning")
    assert len(case.data_files()) < len(before)
    assert table.stop_publishing(drop=True) == 0


def test_a_drop_that_died_is_finished_by_the_next(
    sql: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sql.create_published()
    for v in range(1, 6):
        table.write(row(v))
    store = type(table.hoodie_table.store)

    def die(*_: Any) -> None:
        raise SimulatedCrash

    with monkeypatch.context() as patched, pytest.raises(SimulatedCrash):
        patched.setattr(store, "delete_many", die)
        table.stop_publishing(drop=True)
    with pytest.raises(NoSuchTableError):
        sql.table()
    opened = LakeTable.open(str(sql.folder))
    with pytest.raises(ConfigError, match="--stop --drop"):
        opened.run("cleaning")
    assert opened.stop_publishing(drop=True) > 10
    assert PublishedTable(opened.hoodie_table).load() is None


def test_the_command_publishes_stops_and_drops(
    sql: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    sql.create().write(row(1))
    named = ["--catalog", sql.uri, "--identifier", sql.identifier]
    assert run(["publish", str(sql.folder), *named, "--always"]) == 0
    assert sql.values() == [1]
    LakeTable.open(str(sql.folder)).write(row(2))
    assert sql.values() == [2]
    assert run(["publish", str(sql.folder), "--drop"]) == ConfigError.exit_code
    assert run(["publish", str(sql.folder), "--stop", "--always"]) == ConfigError.exit_code
    capsys.readouterr()
    assert run(["publish", str(sql.folder), "--stop"]) == 0
    assert "no longer published" in capsys.readouterr().out
    assert run(["publish", str(sql.folder), "--stop", "--drop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_removed"] > 4
    assert not sql.catalog.table_exists(sql.identifier)


@pytest.mark.minio
@pytest.mark.usefixtures("minio_credentials")
def test_a_table_in_s3_is_known_to_a_catalog(
    minio_server: MinioServer,
    minio_bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyIceberg reaches the files where the table's location says, with the same credentials."""
    folder = f"s3://{minio_bucket}/{secrets.token_hex(8)}"
    options = {"endpoint": minio_server.endpoint, "region": "us-east-1", "allow_http": "true"}
    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv(VARIABLE, uri)
    place = {PUBLISH_IDENTIFIER: "shop.flights", PUBLISH_CATALOG_URI: uri}
    table = LakeTable.create(
        folder,
        record_key="id",
        storage_options=options,
        properties={**MANUAL, PUBLISH: ICEBERG, **place},
    )
    for v in range(1, 6):
        (note,) = table.write(row(v)).notes
        assert "published as Iceberg snapshot" in note
    assert table.run("cleaning").done
    reached = {"s3.endpoint": minio_server.endpoint, "s3.region": "us-east-1"}
    found = load_catalog("default", uri=uri, **reached).load_table("shop.flights")
    seen = [
        found.scan(snapshot_id=snapshot.snapshot_id).to_arrow() for snapshot in found.snapshots()
    ]
    assert [rows["v"].to_pylist() for rows in seen] == [[4], [5]]
    assert table.stop_publishing(drop=True) > 4
