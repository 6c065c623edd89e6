"""A table's properties name a catalog that nobody configured: it is sent nothing, and the table's
files are only deleted where nothing can need them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.errors import ConfigError, TidelineError, UnsupportedTableError
from tideline.hudi.table.table_config import (
    ICEBERG,
    PUBLISH,
    PUBLISH_CATALOG,
    PUBLISH_CATALOG_TYPE,
    PUBLISH_CATALOG_URI,
    PUBLISH_CATALOG_WAREHOUSE,
    PUBLISH_IDENTIFIER,
)
from tideline.lake_table import LakeTable
from tideline.publication.operations import UnconfiguredCatalogError
from tideline.publication.place import CatalogPlace, place_in, stored_place
from tideline.storage.named_places import SETTING
from tideline.testing.hostile_catalog import (
    CODE,
    CODE_MODULE,
    TOKEN,
    HostileCatalog,
    Spy,
    overriding,
)
from tideline.trust.author import Author

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

VARIABLE = "PYICEBERG_CATALOG__DEFAULT__"
MANUAL = {"hoodie.clean.automatic": "false", "hoodie.clean.commits.retained": "1"}


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    """The environment has a token, of a catalog whose address others give."""
    monkeypatch.setenv(f"{VARIABLE}TOKEN", TOKEN)
    with Spy() as spy:
        yield spy
        assert spy.heard == []
        assert CODE_MODULE not in sys.modules


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    table = LakeTable.create(str(tmp_path / "t"), record_key="id", properties=MANUAL)
    for v in range(5):
        table.write(pa.table({"id": ["a"], "v": [v]}))
    return table


def data_files(table: LakeTable) -> list[Path]:
    return sorted(Path(table.hoodie_table.uri.removeprefix("file://")).glob("*.parquet"))


def name_catalog(table: LakeTable, uri: str, **others: str) -> None:
    """What an author of the folder can write there."""
    named = {PUBLISH: ICEBERG, PUBLISH_IDENTIFIER: "shop.flights", PUBLISH_CATALOG_URI: uri}
    table.hoodie_table.properties.update({**named, **others})


def published_in(table: LakeTable, folder: Path) -> str:
    """Publish it in a catalog of the caller's."""
    uri = f"sqlite:///{folder}/catalog.db"
    table.publish(catalog=uri, identifier="shop.flights")
    return uri


def test_a_table_that_was_never_published_is_cleaned_and_nobody_asked(
    table: LakeTable, spy: Spy
) -> None:
    name_catalog(table, spy.url)
    before = data_files(table)
    table.run("cleaning")
    assert len(data_files(table)) < len(before)


def test_a_write_is_committed_and_says_why_it_is_not_published(table: LakeTable, spy: Spy) -> None:
    name_catalog(table, spy.url)
    (note,) = table.write(pa.table({"id": ["b"], "v": [9]})).notes
    assert "an address is not taken from a table" in note
    assert f"set {VARIABLE}URI" in note
    assert "--stop --drop" in note


@pytest.mark.parametrize("has_own_address", [True, False])
def test_a_published_table_keeps_its_files_until_somebody_decides(
    has_own_address: bool,
    table: LakeTable,
    spy: Spy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(f"{VARIABLE}TOKEN")
    uri = published_in(table, tmp_path)
    if has_own_address:
        monkeypatch.setenv(f"{VARIABLE}URI", uri)
    monkeypatch.setenv(f"{VARIABLE}TOKEN", TOKEN)
    name_catalog(table, spy.url)
    before = data_files(table)
    with pytest.raises(ConfigError, match=r"nothing was deleted.*--stop --drop"):
        table.run("cleaning")
    assert data_files(table) == before
    for is_dry in (False, True):
        with pytest.raises(UnconfiguredCatalogError):
            table.publish(dry_run=is_dry)
    # The first remedy: to name the right place.
    monkeypatch.setenv(f"{VARIABLE}URI", uri)
    monkeypatch.delenv(f"{VARIABLE}TOKEN")
    table.publish(catalog=uri, identifier="shop.flights")
    table.run("cleaning")
    assert len(data_files(table)) < len(before)


def test_a_publication_is_given_up_without_asking_a_stranger(
    table: LakeTable, spy: Spy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.delenv(f"{VARIABLE}TOKEN")
    published_in(table, tmp_path)
    monkeypatch.setenv(f"{VARIABLE}TOKEN", TOKEN)
    name_catalog(table, spy.url)
    uri = table.hoodie_table.uri
    assert run(["publish", uri, "--stop", "--drop", "--yes"]) == 0
    assert "what the catalog knows of it was left" in caplog.text
    before = data_files(table)
    LakeTable.open(uri).run("cleaning")
    assert len(data_files(table)) < len(before)
    properties = table.hoodie_table.properties.reload().properties
    assert not any(name.startswith(PUBLISH) for name in properties)


@pytest.mark.parametrize(
    "others",
    [
        {PUBLISH_CATALOG: "lake"},
        {PUBLISH_CATALOG: "LAKE"},
        {PUBLISH_CATALOG_TYPE: "rest"},
        {PUBLISH_CATALOG: "x__token"},
        {PUBLISH_CATALOG: "../x"},
        {PUBLISH_CATALOG: "\x1b[31m"},
        {PUBLISH_IDENTIFIER: "a.\x1b[31mb"},
        {PUBLISH_IDENTIFIER: "a." + "b" * 1000},
    ],
)
def test_no_way_of_naming_it_sends_anything(
    others: dict[str, str], table: LakeTable, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "http://127.0.0.1:9/own")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", TOKEN)
    name_catalog(table, spy.url, **others)
    for act in (table.publish, lambda: table.run("cleaning")):
        try:
            act()
        except TidelineError as error:
            assert "\x1b" not in str(error)
            assert len(str(error)) < 1_500


@pytest.mark.parametrize(
    "spelled",
    ["{uri}", "{uri}/", "{upper}", "http://someone@{netloc}", "http://{netloc}/?"],
)
def test_a_configured_catalog_is_asked_with_what_configuration_says(
    spelled: str, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HostileCatalog("s3://bucket/orders") as catalog:
        netloc = catalog.url.removeprefix("http://")
        monkeypatch.setenv(f"{VARIABLE}URI", catalog.url)
        monkeypatch.setenv(f"{VARIABLE}TOKEN", TOKEN)
        catalog.alter("config", overriding({"py-io-impl": CODE}))
        upper = catalog.url.replace("http", "HTTP")
        name_catalog(table, spelled.format(uri=catalog.url, netloc=netloc, upper=upper))
        with pytest.raises(TidelineError):
            # The catalog has another table of that name.
            table.publish()
        assert catalog.received
        for request in catalog.received:
            assert request.headers["Authorization"] == f"Bearer {TOKEN}"
            assert request.headers["Host"] == netloc
    assert CODE_MODULE not in sys.modules


@pytest.mark.parametrize("kind", ["glue", "hive", "sql", "dynamodb"])
def test_a_table_does_not_say_what_kind_a_configured_catalog_is(
    kind: str, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Glue would be asked with the machine's own identity, wherever the catalog is."""
    with HostileCatalog("s3://bucket/orders") as catalog:
        monkeypatch.setenv(f"{VARIABLE}URI", catalog.url)
        name_catalog(table, catalog.url, **{PUBLISH_CATALOG_TYPE: kind})
        with pytest.raises(UnconfiguredCatalogError, match=f"{kind}.*{VARIABLE}TYPE"):
            table.publish()
        name_catalog(table, catalog.url, **{PUBLISH_CATALOG_TYPE: "rest"})
        with pytest.raises(TidelineError):
            # The catalog has another table of that name.
            table.publish()
        assert catalog.received


@pytest.mark.parametrize("warehouse", ["file:///", "{folder}", "."])
def test_a_table_names_no_folder_of_this_machine_as_a_warehouse(
    warehouse: str, table: LakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = warehouse.format(folder=tmp_path)
    with HostileCatalog(f"file://{tmp_path}/others") as catalog:
        monkeypatch.setenv(f"{VARIABLE}URI", catalog.url)
        name_catalog(table, catalog.url, **{PUBLISH_CATALOG_WAREHOUSE: named})
        with pytest.raises(UnsupportedTableError, match=SETTING):
            table.publish()
        assert not any("warehouse" in request.path for request in catalog.received)
        name_catalog(table, catalog.url, **{PUBLISH_CATALOG_WAREHOUSE: "lake"})
        with pytest.raises(UnsupportedTableError, match=SETTING):
            table.publish()
        assert any("warehouse=lake" in request.path for request in catalog.received)


def test_an_address_has_the_author_who_gave_it() -> None:
    stored = {PUBLISH_IDENTIFIER: "a.b", PUBLISH_CATALOG_URI: "http://one"}

    def author(place: CatalogPlace | None) -> Author:
        assert place is not None
        return place.by

    assert author(place_in(stored)) is Author.TABLE
    assert author(place_in(stored, {PUBLISH_IDENTIFIER: "c.d"})) is Author.TABLE
    assert author(place_in(stored, {PUBLISH_CATALOG_URI: "http://two"})) is Author.PROCESS
    assert author(place_in({}, stored)) is Author.PROCESS
    assert author(stored_place(stored, stored)) is Author.PROCESS
    assert author(stored_place(stored, {PUBLISH_CATALOG_URI: "http://two"})) is Author.TABLE
    assert author(CatalogPlace.of("http://one", "a.b")) is Author.PROCESS


def test_a_catalog_that_a_setting_gives_the_address_of_is_the_one_that_is_asked(
    table: LakeTable, spy: Spy
) -> None:
    """Whichever of the two settings holds it: a token of the environment goes there alone."""
    for setting in (PUBLISH_CATALOG, PUBLISH_CATALOG_URI):
        with HostileCatalog("s3://bucket/orders") as catalog:
            name_catalog(table, spy.url, **{PUBLISH_CATALOG_TYPE: "glue"})
            given = {setting: catalog.url}
            report = table.write(pa.table({"id": ["a"], "v": [9]}), options=given)
            assert "not a publication of this one" in report.notes[0]
            assert catalog.received
            place = place_in(table.hoodie_table.config.properties, given)
            assert place is not None
            assert place.uri == catalog.url


def test_settings_of_a_call_name_the_catalog_for_its_cleaning(
    table: LakeTable, tmp_path: Path
) -> None:
    uri = published_in(table, tmp_path)
    before = data_files(table)
    with pytest.raises(ConfigError, match=re.escape(f"set {VARIABLE}URI")):
        table.run("cleaning")
    given = {PUBLISH: ICEBERG, PUBLISH_IDENTIFIER: "shop.flights", PUBLISH_CATALOG_URI: uri}
    table.run("cleaning", options=given)
    assert len(data_files(table)) < len(before)
