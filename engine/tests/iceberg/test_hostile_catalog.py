"""A REST catalog that answers each request with what it should not: its answers are data."""

from __future__ import annotations

import gzip
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tideline.bounded.read_limits import SETTING
from tideline.errors import TidelineError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.found_table import FoundTable
from tideline.iceberg.table.table_operations import Committed, Loaded
from tideline.storage.named_places import SETTING as EXTRA_LOCATIONS
from tideline.testing.fake_clock import FakeClock
from tideline.testing.hostile_catalog import (
    CODE_MODULE,
    EXCHANGED,
    KINDS,
    TOKEN,
    Alteration,
    HostileCatalog,
    Received,
    Spy,
    configuring_table,
    dangerous_properties,
    defaulting,
    dripping,
    ending_programs,
    endless,
    naming_in_table,
    overriding,
    redirecting,
    repeating_credentials,
    saying,
)
from tideline.trust.author import Author
from tideline.trust.catalog_access import OF_PROCESS, CatalogAccess

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_search import list_tables
from tideline.iceberg.table.catalog_table import CatalogTable

CREDENTIAL = "client-of-ours:client-secret-42"
NAMES = tuple(dangerous_properties("http://spy"))
PLACES = {
    "defaults": ("config", defaulting),
    "overrides": ("config", overriding),
    "table-config": ("table", configuring_table),
    "table-property": ("table", naming_in_table),
    "commit-config": ("commit", configuring_table),
    "commit-property": ("commit", naming_in_table),
}
OF_RESOURCE = CatalogAccess(Author.RESOURCE)


@pytest.fixture
def spy() -> Iterator[Spy]:
    with Spy() as spy:
        yield spy
        assert spy.heard == []


@pytest.fixture(autouse=True)
def configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configuration lets the catalog name folders of the test."""
    monkeypatch.setenv(EXTRA_LOCATIONS, f"file://{tmp_path},file:///proxied")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[HostileCatalog]:
    with HostileCatalog(f"file://{tmp_path}/orders") as catalog:
        yield catalog
        assert CODE_MODULE not in sys.modules


class NotAnsweredError(Exception):
    """A listing without the table, or the outcome of a commit that took no place."""


REFUSED = (TidelineError, NotAnsweredError)


def use(
    catalog: HostileCatalog,
    secrets: dict[str, str] | None = None,
    access: CatalogAccess = OF_RESOURCE,
    timeout_s: float = 10.0,
) -> Loaded:
    """Open it, list it, load its table and commit to that."""
    credentials = {"token": TOKEN} if secrets is None else secrets
    opened = open_catalog(
        "lake", {"uri": catalog.url}, credentials=credentials, timeout_s=timeout_s, access=access
    )
    listed = list_tables(opened)
    if listed != (FoundTable(("shop", "orders"), ""),):
        raise NotAnsweredError(str(listed))
    table = CatalogTable(opened, "shop.orders", clock=FakeClock(), access=access)
    base = table.load()
    outcome = table.commit(base, (), (SetProperties({"a": "b"}),))
    if not isinstance(outcome, Committed):
        raise NotAnsweredError(str(outcome))
    return outcome.loaded


def assert_as_configured(request: Received, catalog: HostileCatalog) -> None:
    """The server and the path of a request, and how it authenticates."""
    assert request.headers["Host"] == catalog.url.removeprefix("http://")
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.path.startswith("/v1/")
    assert ".." not in request.path
    assert not any(name.lower().startswith("x-amz") for name in request.headers)
    assert "X-Forwarded-User" not in request.headers
    assert "another" not in request.text
    assert "snapshots=refs" not in request.path


@pytest.mark.parametrize("access", [OF_PROCESS, OF_RESOURCE], ids=["process", "resource"])
@pytest.mark.parametrize("name", NAMES)
def test_a_property_in_an_answer_runs_opens_and_redirects_nothing(
    name: str, access: CatalogAccess, catalog: HostileCatalog, spy: Spy
) -> None:
    properties = {name: dangerous_properties(spy.url)[name]}
    # One place at a time, and two where nothing differs but who asks.
    places = PLACES if access is OF_RESOURCE else ("overrides", "table-property")
    for kind, alteration in (PLACES[place] for place in places):
        catalog.alter(kind, alteration(properties))
        use(catalog, access=access)
        assert CODE_MODULE not in sys.modules
    assert {request.kind for request in catalog.received} == {*KINDS} - {"token"}
    for request in catalog.received:
        assert_as_configured(request, catalog)


@pytest.mark.parametrize("program", ending_programs())
def test_no_program_ends_the_process(program: str, catalog: HostileCatalog) -> None:
    named = {"py-io-impl": program, "auth": {"type": "custom", "impl": program, "custom": {}}}
    for kind, alteration in PLACES.values():
        catalog.alter(kind, alteration(named))
        use(catalog)


def test_what_a_catalog_may_say_of_itself_counts(catalog: HostileCatalog) -> None:
    catalog.alter("config", overriding({"prefix": "houses/ours", "rest-page-size": "50"}))
    use(catalog)
    asked = [request.path for request in catalog.received if request.kind != "config"]
    assert all(path.startswith("/v1/houses/ours/") for path in asked)
    assert any("pageSize=50" in path for path in asked)


def test_a_catalog_may_answer_at_another_path_of_its_server(catalog: HostileCatalog) -> None:
    """As Nessie does, whose address may name a branch."""
    catalog.alter("config", overriding({"uri": f"{catalog.url}/iceberg", "prefix": "main"}))
    use(catalog)
    asked = [request.path for request in catalog.received if request.kind != "config"]
    assert asked
    assert all(path.startswith("/iceberg/v1/main/") for path in asked)


@pytest.mark.parametrize("path", ["/../iceberg", "/iceberg?x=", "/a@b\\c", "/#"])
def test_odd_paths_of_its_server_are_not_taken(path: str, catalog: HostileCatalog) -> None:
    catalog.alter("config", overriding({"uri": f"{catalog.url}{path}"}))
    use(catalog)
    assert all(request.path.startswith("/v1/") for request in catalog.received)


def test_what_is_not_taken_is_named_once_and_without_its_value(
    catalog: HostileCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.alter("config", overriding({"odd-impl": "secret-of-the-server", "s3.region": "x"}))
    for _ in range(2):
        use(catalog)
    (line,) = [
        record.getMessage() for record in caplog.records if "odd-impl" in record.getMessage()
    ]
    assert "not taken from an answer of the catalog" in line
    assert "secret-of-the-server" not in caplog.text
    assert "s3.region" not in caplog.text


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_foreign", [True, False])
def test_redirects_are_not_followed(
    kind: str, status: int, is_foreign: bool, catalog: HostileCatalog, spy: Spy
) -> None:
    to = spy.url if is_foreign else f"{catalog.url}/other"
    catalog.alter(kind, redirecting(status, to))
    with pytest.raises(REFUSED, match=r"redirects to|Unknown"):
        use(catalog, {"credential": CREDENTIAL})
    assert not any(request.path.startswith("/other") for request in catalog.received)


def test_credentials_of_the_catalog_do_not_go_to_the_server_of_tokens(
    catalog: HostileCatalog, tmp_path: Path
) -> None:
    with HostileCatalog(f"file://{tmp_path}/other") as tokens:
        secrets = {
            "credential": CREDENTIAL,
            "header.x-api-key": "key-of-the-catalog",
            "oauth2-server-uri": f"{tokens.url}/oauth/tokens",
        }
        use(catalog, secrets)
        assert [request.kind for request in tokens.received] == ["token"]
        for request in tokens.received:
            assert "client-secret-42" in request.text
            assert "key-of-the-catalog" not in request.text
            assert "Authorization" not in request.headers
        for request in catalog.received:
            assert request.headers["Authorization"] == f"Bearer {EXCHANGED}"
            assert request.headers["x-api-key"] == "key-of-the-catalog"
            assert "client-secret-42" not in request.text


@pytest.mark.parametrize("is_json", [True, False])
@pytest.mark.parametrize("status", [400, 401, 404, 409, 500])
@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_that_repeats_credentials_shows_none(
    kind: str, status: int, is_json: bool, catalog: HostileCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.alter(kind, repeating_credentials(status, is_json=is_json))
    secrets = {"credential": CREDENTIAL, "header.x-api-key": "key-of-the-catalog"}
    with pytest.raises(REFUSED) as caught:
        use(catalog, secrets)
    said = f"{caught.value} {caplog.text}"
    for secret in ("client-secret-42", EXCHANGED, "key-of-the-catalog"):
        assert secret not in said
    assert "\x1b" not in said and "\0" not in said
    assert len(str(caught.value)) < 1_500


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_an_end_is_left(
    kind: str, status: int, catalog: HostileCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "4Mi")
    catalog.alter(kind, endless(b'{"a": "' + b"x" * 65_536, status))
    tracemalloc.start()
    try:
        with pytest.raises(REFUSED):
            use(catalog, {"credential": CREDENTIAL})
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_what_an_answer_decompresses_to_is_bounded(
    catalog: HostileCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "4Mi")
    bomb = gzip.compress(b" " * 64 * 1024 * 1024)
    catalog.alter("table", saying(bomb, Content_Encoding="gzip"))
    with pytest.raises(TidelineError, match="decompress"):
        use(catalog)


def test_a_compressed_answer_is_read(catalog: HostileCatalog) -> None:
    catalog.alter(
        "table",
        lambda answer, _: replace(
            answer, body=gzip.compress(answer.body), headers={"Content-Encoding": "gzip"}
        ),
    )
    use(catalog)


@pytest.mark.parametrize("where", ["head", "body", "chunks"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_drips_has_a_deadline(
    kind: str, where: str, catalog: HostileCatalog
) -> None:
    catalog.alter(kind, dripping(where))
    began = time.monotonic()
    with pytest.raises(REFUSED):
        use(catalog, {"credential": CREDENTIAL}, timeout_s=0.2)
    assert time.monotonic() - began < 10


def nested(levels: int) -> bytes:
    return b'{"defaults": ' + b'{"a": ' * levels + b"1" + b"}" * (levels + 1)


BROKEN: dict[str, bytes] = {
    "deep": nested(100_000),
    "deep-list": b"[" * 100_000,
    "huge-number": b'{"defaults": {"a": ' + b"9" * 100_000 + b'}, "metadata": 1}',
    "list": b"[]",
    "text": b'"x"',
    "null": b"null",
    "nothing": b"",
    "half-a-character": b'{"defaults": {"\\ud800": "\\ud800"}}',
    "null-fields": json.dumps(
        dict.fromkeys(("defaults", "overrides", "namespaces", "identifiers", "metadata"))
    ).encode(),
    "wrong-types": json.dumps(
        {
            "defaults": [1],
            "overrides": "x",
            "endpoints": [7, "GET"],
            "namespaces": {"a": 1},
            "identifiers": [[]],
            "metadata": {"format-version": "two"},
            "access_token": {"a": 1},
        }
    ).encode(),
    "not-utf-8": b"\xff\xfe{}",
    "infinite": b'{"defaults": {"rest-page-size": 1e999}, "metadata": NaN}',
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_an_error_that_says_so(
    kind: str, body: bytes, catalog: HostileCatalog
) -> None:
    catalog.alter(kind, saying(body))
    try:
        use(catalog, {"credential": CREDENTIAL})
    except REFUSED as error:
        assert len(str(error)) < 2_000
    else:
        assert kind == "config"


def test_a_listing_that_goes_on_for_ever_is_left(
    catalog: HostileCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.iceberg.table.catalog_http.PAGES_MAX", 20)
    catalog.alter(
        "tables", lambda answer, _: answer.saying({**answer.document, "next-page-token": "more"})
    )
    with pytest.raises(TidelineError, match="no end"):
        use(catalog)


def moved(location: Any) -> Alteration:
    def altered(answer: Any, _: Received) -> Any:
        document = answer.document
        document["metadata"] = {**document["metadata"], "location": location}
        return answer.saying({**document, "metadata-location": f"{location}/metadata/1.json"})

    return altered


@pytest.mark.parametrize(
    "location", ["file:///etc", "/etc", "file:/dev/fd", "gs://b/t", "http://127.0.0.1:1/t", "jar:x"]
)
def test_a_catalog_of_a_resource_names_no_place_of_this_machine(
    location: str, catalog: HostileCatalog
) -> None:
    catalog.alter("table", moved(location))
    access = replace(OF_RESOURCE, allows_local=False)
    with pytest.raises(TidelineError, match="the catalog names a"):
        use(catalog, access=access)


def test_requests_go_through_the_proxy_that_is_given(catalog: HostileCatalog) -> None:
    with HostileCatalog("file:///proxied") as proxy:
        access = replace(OF_RESOURCE, proxy_for=lambda _: proxy.url)
        open_catalog(
            "lake", {"uri": "http://catalog.invalid"}, credentials={"token": TOKEN}, access=access
        )
        (request,) = proxy.received
        assert request.path == "http://catalog.invalid/v1/config"
    assert catalog.received == []
