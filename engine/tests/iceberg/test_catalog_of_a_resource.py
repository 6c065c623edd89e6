"""Catalogs that a resource and its Secret describe, opened by a process that serves many: nothing
of the process's own counts, and nothing that they say names code, files or identities of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import ConfigError, TidelineError
from tideline.testing.hostile_catalog import (
    CODE,
    CODE_MODULE,
    TOKEN,
    HostileCatalog,
    Spy,
    dangerous_properties,
)
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from tideline.iceberg.table.catalog_opening import open_catalog

REMOTE = CatalogAccess(Author.RESOURCE, allows_local=False)
DECIDED_ELSEWHERE = {"uri", "oauth2-server-uri", "token", "credential", "scope", "type"}
"""What a Secret may set, which the tests below have."""


@pytest.fixture
def catalog() -> Iterator[HostileCatalog]:
    with HostileCatalog("s3://bucket/orders") as catalog:
        yield catalog
        assert CODE_MODULE not in sys.modules


@pytest.mark.parametrize("name", sorted(set(dangerous_properties("")) - DECIDED_ELSEWHERE))
def test_a_secret_names_no_code_no_file_and_no_identity(
    name: str, catalog: HostileCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-operator")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-operator")
    with Spy() as spy:
        given = {"token": TOKEN, name: dangerous_properties(spy.url)[name]}
        if name == "header.Authorization":
            given.pop("token")
        open_catalog("lake", {"uri": catalog.url}, credentials=given, access=REMOTE)  # type: ignore[arg-type]
        assert spy.heard == []
    (request,) = catalog.received
    assert request.path.partition("?")[0] == "/v1/config"
    assert "operator" not in request.text
    assert "X-Forwarded-User" not in request.headers
    assert request.headers["Host"] == catalog.url.removeprefix("http://")


def test_nothing_of_the_environment_counts(
    catalog: HostileCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = catalog.url.removeprefix("http://").partition(":")[0]
    (tmp_path / ".netrc").write_text(f"machine {host} login me password of-the-operator\n")
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    uri: {catalog.url}\n    token: token-of-the-operator\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TOKEN", "token-of-the-operator")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__HEADER.X-A", "header-of-the-operator")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    open_catalog("lake", {"uri": catalog.url}, access=REMOTE)
    (request,) = catalog.received
    assert "Authorization" not in request.headers
    assert "operator" not in request.text
    with pytest.raises(ConfigError, match="URI missing"):
        open_catalog("lake", {"type": "rest"}, access=REMOTE)


def test_what_a_secret_may_not_set_is_named_without_its_value(
    catalog: HostileCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            secret = {"py-io-impl": CODE, "token": TOKEN}
            open_catalog("named", {"uri": catalog.url}, credentials=secret, access=REMOTE)
    (record,) = caplog.records
    assert "py-io-impl" in record.getMessage()
    assert CODE not in caplog.text


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:////tmp/taken.db",
        "sqlite://",
        "sqlite+pysqlite:///taken.db",
        f"postgresql+{CODE_MODULE}://u:p@db/lake",
        "mysql+pymysql://u:p@db/lake?read_default_file=/etc/passwd",
        "oracle://u:p@db/lake",
        "postgresql://db/lake",
        "postgresql://u@db/lake",
        "postgresql://u:p@/lake?host=/var/run/postgresql",
        "postgresql://u:p@%2Fvar%2Frun/lake",
        "postgresql://u:p@db,localhost/lake",
        "postgresql://u:p@db/service=operator sslkey=x",
        "postgresql://u:p@db/lake?sslkey=/etc/key",
        "postgresql://u:p@db/lake?sslrootcert=/etc/passwd",
        "postgresql://u:p@db/lake?passfile=/etc/passwd",
        "postgresql://u:p@db/lake?service=operator",
        "postgresql://u:p@db/lake?options=-c%20x=y",
        "postgresql://u:p@db/lake?hostaddr=127.0.0.1",
        "postgresql://u:p@db/lake?sslmode=require&sslmode=disable&plugin=x",
        "POSTGRESQL://u:p@db/lake",
        "http://user:password@host",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_database_is_a_server_of_postgresql_that_is_logged_in_to(
    uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("sql", "rest", "hive", None):
        given = {"type": kind} if kind else {}
        with pytest.raises(TidelineError) as caught:
            open_catalog("lake", given, credentials={"uri": uri}, access=REMOTE)
        assert not uri or uri not in str(caught.value)
        assert "/etc/" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert CODE_MODULE not in sys.modules


def test_a_resource_and_its_secret_agree_about_the_address(catalog: HostileCatalog) -> None:
    with pytest.raises(ConfigError, match="different addresses"):
        open_catalog(
            "lake",
            {"uri": "http://127.0.0.1:9"},
            credentials={"uri": catalog.url, "token": TOKEN},
            access=REMOTE,
        )
    same = {"uri": f"{catalog.url}/", "token": TOKEN}
    open_catalog("lake", {"uri": catalog.url}, credentials=same, access=REMOTE)
