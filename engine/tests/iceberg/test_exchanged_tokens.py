"""Tokens of a REST catalog that are exchanged: a subject's for one of the catalog, and each for the
next before it ends; through a server of tokens, and Iceberg's own catalog."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.iceberg.table.table_operations import Committed
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_rest_server import IcebergRestServer
from tideline.testing.one_at_a_time import one_at_a_time
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess

pytest.importorskip("pyiceberg")

from pyiceberg.exceptions import OAuthError

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_rest import BoundedRestCatalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.catalog_tokens import CatalogTokens
from tideline.iceberg.table.token_grants import TokenGrants, token_type
from tideline.testing.catalog_token_server import (
    CLIENT_GRANT,
    EXCHANGE_GRANT,
    DemandingCatalog,
    TokenServer,
)

NAME = "shop.orders"
JWT = "urn:ietf:params:oauth:token-type:jwt"
CLIENT, SECRET = "engine", "secret-of-the-engine"
SUBJECT = "token-of-a-workload-0815"
OF_RESOURCE = CatalogAccess(Author.RESOURCE)


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    with TokenServer() as tokens:
        tokens.clients[CLIENT] = SECRET
        tokens.subjects[SUBJECT] = JWT
        yield tokens


@pytest.fixture
def catalog(tokens: TokenServer) -> Iterator[DemandingCatalog]:
    with DemandingCatalog(tokens) as catalog:
        catalog.create(NAME)
        yield catalog


def opened(catalog: DemandingCatalog, tokens: TokenServer, **given: str) -> BoundedRestCatalog:
    secrets = {name.replace("_", "-"): text for name, text in given.items()}
    found = open_catalog(
        "lake",
        {"uri": catalog.url},
        credentials={"oauth2-server-uri": tokens.address, **secrets},
        timeout_s=5.0,
        access=OF_RESOURCE,
    )
    assert isinstance(found, BoundedRestCatalog)
    return found


def table_of(catalog: BoundedRestCatalog) -> CatalogTable:
    return CatalogTable(catalog, NAME, clock=FakeClock())


def test_a_subjects_token_is_exchanged_and_the_catalog_sees_the_other_alone(
    catalog: DemandingCatalog, tokens: TokenServer
) -> None:
    table_of(
        opened(
            catalog, tokens, subject_token=SUBJECT, subject_token_type="jwt", scope="tables",
            audience="lake", resource="https://lake.example/",
        )
    ).load()  # fmt: skip
    (asked,) = tokens.asked
    assert dict(asked.form) == {
        "grant_type": EXCHANGE_GRANT,
        "subject_token": SUBJECT,
        "subject_token_type": JWT,
        "scope": "tables",
        "audience": "lake",
        "resource": "https://lake.example/",
    }
    assert asked.authorization == ""
    assert catalog.refused == 0
    assert all(SUBJECT not in request.text for request in catalog.received)


def test_a_client_acts_for_the_subject(catalog: DemandingCatalog, tokens: TokenServer) -> None:
    table_of(
        opened(
            catalog, tokens, subject_token=SUBJECT, subject_token_type=JWT,
            credential=f"{CLIENT}:{SECRET}",
        )
    ).load()  # fmt: skip
    first, second = tokens.asked
    assert first.grant == CLIENT_GRANT
    assert second.form["actor_token"] == "issued-token-number-0001"
    assert second.form["actor_token_type"] == token_type("access_token")
    assert second.authorization == "Bearer issued-token-number-0001"
    assert catalog.received[-1].headers["Authorization"] == "Bearer issued-token-number-0002"


def test_a_server_that_knows_clients_by_their_secrets(
    catalog: DemandingCatalog, tokens: TokenServer
) -> None:
    tokens.wants_client = True
    given = {"subject_token": SUBJECT, "subject_token_type": "jwt"}
    table_of(opened(catalog, tokens, credential=f"{CLIENT}:{SECRET}", **given)).load()
    assert [asked.authorization.partition(" ")[0] for asked in tokens.asked] == [
        "", "Bearer", "Basic",
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="invalid_client"):
        opened(catalog, tokens, token=tokens.issue(), **given)


@pytest.mark.slow
@pytest.mark.parametrize("says", ["expires_in", "jwt", "configuration"])
def test_the_first_token_becomes_the_next_before_it_ends(
    catalog: DemandingCatalog, tokens: TokenServer, says: str
) -> None:
    """Without a request of the catalog in all that time."""
    tokens.writes_jwt = says == "jwt"
    tokens.says_life = says == "expires_in"
    tokens.life_s = 8.0
    given = {} if says == "jwt" else {"token_expires_in_ms": "8000"}
    found = opened(catalog, tokens, token=tokens.issue(), **given)
    table = table_of(found)
    base = table.load()
    time.sleep(11)
    if says == "configuration":
        # Of the second one nobody says when it ends.
        assert len(tokens.asked) == 1
        tokens.end("issued-token-number-0001")
    outcome = table.commit(base, (), (SetProperties({"a": "b"}),))
    assert isinstance(outcome, Committed)
    assert catalog.refused == 0
    assert tokens.asked
    for asked in tokens.asked:
        assert asked.grant == EXCHANGE_GRANT
        assert asked.authorization == f"Bearer {asked.form['subject_token']}"
        assert asked.form["scope"] == "catalog"


def test_a_timer_ends_with_its_catalog(catalog: DemandingCatalog, tokens: TokenServer) -> None:
    tokens.life_s = 600.0
    before = set(threading.enumerate())
    found = opened(catalog, tokens, token=tokens.issue(), token_expires_in_ms="600000")
    (timer,) = (t for t in {*threading.enumerate()} - before if t.name == "token of lake")
    del found
    gc.collect()
    timer.join(5)
    assert not timer.is_alive()
    assert tokens.asked == []


class Server:
    """Answers of a server of tokens, at a time that a test sets."""

    def __init__(self, *, exchanges: bool = True) -> None:
        self.now_s = 1_000_000.0
        self.exchanges = exchanges
        self.is_away = False
        self.forms: list[dict[str, str]] = []

    def __call__(self, form: dict[str, str], authorization: str | None) -> object:
        self.forms.append(form)
        if self.is_away:
            raise ConnectionError("away")
        if form["grant_type"] == EXCHANGE_GRANT and not self.exchanges:
            raise OAuthError("unsupported_grant_type")
        assert authorization is None or authorization.startswith(("Bearer ", "Basic "))
        return {"access_token": f"t{len(self.forms)}", "token_type": "bearer", "expires_in": 1000}

    def tokens(self, **given: str) -> CatalogTokens:
        named = {name.replace("_", "-"): text for name, text in given.items()}
        return CatalogTokens("lake", TokenGrants.of(named), self, now_s=lambda: self.now_s)

    @property
    def grants(self) -> list[str]:
        return ["exchange" if form["grant_type"] == EXCHANGE_GRANT else "client"
                for form in self.forms]  # fmt: skip


def test_a_token_of_a_credential_is_exchanged_when_a_tenth_of_its_life_is_left() -> None:
    server = Server()
    tokens = server.tokens(credential="a:b")
    server.now_s += 899
    assert tokens.auth_header() == "Bearer t1"
    server.now_s += 2
    assert tokens.auth_header() == "Bearer t2"
    assert server.grants == ["client", "exchange"]
    server.now_s += 2_000
    assert tokens.auth_header() == "Bearer t3", "one that has ended is not exchanged"
    assert server.grants == ["client", "exchange", "client"]


@pytest.mark.parametrize("switch", ["true", "false"])
def test_where_nothing_is_exchanged_the_credential_leads_to_the_next(switch: str) -> None:
    server = Server(exchanges=False)
    tokens = server.tokens(credential="a:b", token_exchange_enabled=switch)
    for _ in range(3):
        server.now_s += 950
        tokens.auth_header()
    # Refused as the token's own, and as the client's.
    refused = ["exchange", "exchange"] if switch == "true" else []
    assert server.grants == ["client", *refused, "client", "client", "client"]


def test_what_is_not_to_be_replaced_is_not() -> None:
    server = Server()
    tokens = server.tokens(credential="a:b", token_refresh_enabled="false")
    server.now_s += 5_000
    assert tokens.auth_header() == "Bearer t1"
    tokens.replace_refused()
    assert tokens.auth_header() == "Bearer t2", "but after a refusal"


def test_a_server_of_tokens_that_is_away_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    tokens = server.tokens(credential="a:b")
    server.now_s += 950
    server.is_away = True
    with caplog.at_level(logging.WARNING):
        assert tokens.auth_header() == "Bearer t1"
        assert tokens.auth_header() == "Bearer t1"
    assert len(server.forms) == 2
    assert "its token is about to end and was not replaced: away" in caplog.text
    server.is_away = False
    server.now_s += 20
    assert tokens.auth_header() == "Bearer t3"


def test_a_token_alone_that_cannot_be_replaced_is_used_on() -> None:
    server = Server(exchanges=False)
    tokens = server.tokens(token="own", token_expires_in_ms="1000000")
    server.now_s += 5_000
    assert tokens.auth_header() == "Bearer own"
    tokens.replace_refused()
    assert tokens.auth_header() == "Bearer own"
    assert server.forms == []
    assert Server().tokens().auth_header() is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subject_token": "x", "token_exchange_enabled": "false"}, "leave token-exchange-enabled"),
        ({"subject_token": "x", "subject_token_type": "password"}, "is one of access_token"),
        ({"token": "x", "token_expires_in_ms": "soon"}, "is a number of milliseconds"),
    ],
)
def test_settings_that_mean_nothing_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Server().tokens(**given)


@pytest.mark.parametrize(
    "answer",
    [
        {}, [], {"access_token": 7}, {"access_token": ""}, {"access_token": "a\nb"},
        {"access_token": "x" * 20_000}, {"access_token": "ü"},
    ],
)  # fmt: skip
def test_an_answer_without_a_token_says_so(answer: object) -> None:
    with pytest.raises(ConfigError, match="has none that a header can hold"):
        CatalogTokens("lake", TokenGrants.of({"credential": "a:b"}), lambda *_: answer)


@pytest.mark.parametrize("life", [-5, 0, "soon", 1e300, float("nan"), True, None, 2**70])
def test_an_odd_life_is_none(life: object) -> None:
    answer = {"access_token": "t", "expires_in": life}
    now_s = [1_000.0]
    tokens = CatalogTokens(
        "lake", TokenGrants.of({"credential": "a:b"}), lambda *_: answer, now_s=lambda: now_s[0]
    )
    now_s[0] += 0.5 if life is True else 1e9
    assert tokens.auth_header() == "Bearer t"


@pytest.mark.parametrize("claims", ["", "e30", "W10", "eyJleHAiOiJ4In0", "eyJleHAiOi0xfQ", "%%%"])
def test_what_no_jwt_says_is_no_end(claims: str) -> None:
    tokens = Server().tokens(token=f"a.{claims}.b")
    assert tokens.auth_header() == f"Bearer a.{claims}.b"


def test_a_refused_token_that_cannot_be_replaced_denies_access(
    catalog: DemandingCatalog, tokens: TokenServer
) -> None:
    """A commit that was refused so has not taken place: it is not in doubt."""
    table = table_of(opened(catalog, tokens, credential=f"{CLIENT}:{SECRET}"))
    base = table.load()
    tokens.end("issued-token-number-0001")
    tokens.is_away = True
    with pytest.raises(StorageUnavailableError, match="no other one is to be had") as caught:
        table.commit(base, (), (SetProperties({"a": "b"}),))
    assert SECRET not in str(caught.value)
    tokens.is_away = False
    assert isinstance(table.commit(base, (), (SetProperties({"a": "b"}),)), Committed)


@pytest.mark.interop
def test_icebergs_own_catalog_exchanges(iceberg_rest_server: IcebergRestServer) -> None:
    with one_at_a_time(iceberg_rest_server.uri) as uri:
        given = {"subject-token": SUBJECT, "subject-token-type": "id_token", "credential": "a:b"}
        found = open_catalog("lake", {"uri": uri}, credentials=given)
        assert isinstance(found, BoundedRestCatalog)
        assert found._auth_manager is not None
        actor = "client-credentials-token:sub=a"
        shown = f"token-exchange-token:sub={SUBJECT},act={actor}"
        assert found._auth_manager.auth_header() == f"Bearer {shown}"
        found.list_namespaces()
