"""Connections to Google's and Azure's storage: whose identity signs, and where it is used."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qs, urlsplit

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.azure.keys import AzureKeys
from tideline.storage.azure.store import AzureEndpoint
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.gcs.identity import GoogleKey
from tideline.storage.gcs.store import GcsEndpoint
from tideline.storage.location import StoreLocation
from tideline.storage.remote import token_request
from tideline.storage.remote.connection import Audience, Keyless, SecretKeys, StoreConnection
from tideline.storage.remote.identity import IdentityError
from tideline.storage.remote.token_request import answer_to_form
from tideline.storage.s3.client import S3Credentials
from tideline.testing.egress_case import LIMITS, PATIENT
from tideline.testing.gcs_server import service_account_key, signer_of
from tideline.testing.patience import PATIENCE_S
from tideline.testing.spy_server import SeenRequest, SpyServer, answer
from tideline.trust.addresses import AddressRules

HERE = "127.0.0.1"
ACCOUNT = "lake@own.iam.gserviceaccount.com"
KEY = base64.b64encode(b"the-key-of-the-account").decode()
CLIENT = AzureKeys(tenant_id="own-tenant", client_id="own-id", client_secret="the-client-secret")
SCHEMES = ("gs", "abfss")


@pytest.fixture(autouse=True)
def ambient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with identities of this process."""
    monkeypatch.setattr(token_request, "_TIMEOUT_S", PATIENCE_S)
    for name in ("GOOGLE_BEARER_TOKEN", "AZURE_STORAGE_TOKEN", "AZURE_CLIENT_SECRET"):
        monkeypatch.setenv(name, f"ambient-{name}")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"ambient").decode())
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=ambient")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "ambient")
    monkeypatch.setenv("AZURE_CREDENTIAL_TYPE", "access_key")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "1")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "1")


@pytest.fixture(scope="module")
def google() -> GoogleKey:
    return GoogleKey.of(service_account_key(ACCOUNT), "the key")


def location_at(scheme: str, url: str, account: str = "own") -> StoreLocation:
    if scheme == "gs":
        options = {"gcs_endpoint": url, "allow_http": "true"}
        return StoreLocation.of("gs://lake/table", options)
    options = {"azure_endpoint": url, "allow_http": "true"}
    return StoreLocation.of(f"abfss://lake@{account}.dfs.core.windows.net/table", options)


def connected(
    scheme: str, credentials: SecretKeys | Keyless, audience: Audience | None = None
) -> StoreConnection:
    return StoreConnection(credentials, scheme=scheme, audience=audience, limits=LIMITS)


def seen(scheme: str, credentials: SecretKeys | Keyless) -> SeenRequest:
    """The request that reads an object with these credentials."""
    with SpyServer() as spy:
        location_at(scheme, spy.url(HERE)).open(connected(scheme, credentials)).get("x")
    (request,) = spy.requests
    assert "ambient" not in f"{request.target} {request.headers}"
    return request


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_anonymous_request_has_nothing_of_the_environment(scheme: str) -> None:
    request = seen(scheme, Keyless.ANONYMOUS)
    assert "authorization" not in request.headers
    assert urlsplit(request.target).query == ""


def test_a_service_accounts_key_signs_its_tokens_itself(
    google: GoogleKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    # obstore prefers a token of the environment to any key; readers have none in theirs.
    with pytest.raises(ConfigError, match="GOOGLE_BEARER_TOKEN is in the environment"):
        seen("gs", google)
    monkeypatch.delenv("GOOGLE_BEARER_TOKEN")
    assert signer_of(seen("gs", google).headers["authorization"]) == ACCOUNT


def test_an_accounts_key_and_a_signature_are_those_given() -> None:
    signed = seen("abfss", AzureKeys(account_key=KEY)).headers["authorization"]
    assert signed.startswith("SharedKey own:")
    request = seen("abfss", AzureKeys(signature="?sv=2&sig=the-own-signature"))
    assert parse_qs(urlsplit(request.target).query)["sig"] == ["the-own-signature"]
    assert masked("it is the-own-signature") == "it is ***"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_credentials_of_another_kind_and_of_this_process_are_not_used(
    scheme: str, google: GoogleKey
) -> None:
    other = AzureKeys(account_key=KEY) if scheme == "gs" else google
    with SpyServer() as spy:
        location = location_at(scheme, spy.url(HERE))
        for credentials in (other, Keyless.AMBIENT, S3Credentials("key", "secret")):
            with pytest.raises(ConfigError, match="the credentials are none of"):
                location.open(connected(scheme, credentials)).get("x")
        for own in ("s3", *SCHEMES):
            if own != scheme:
                with pytest.raises(ConfigError, match=f"are for {own}:// locations"):
                    location.open(connected(own, Keyless.ANONYMOUS)).get("x")
    assert spy.connections == 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_credentials_are_used_at_their_server_alone(
    scheme: str, google: GoogleKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_BEARER_TOKEN")
    credentials = google if scheme == "gs" else AzureKeys(account_key=KEY)
    with SpyServer() as meant, SpyServer() as stranger:
        url = meant.url(HERE)
        endpoint = GcsEndpoint(url) if scheme == "gs" else AzureEndpoint("own", url=url)
        connection = connected(scheme, credentials, Audience.of([endpoint]))
        assert location_at(scheme, url).open(connection).get("x") == b"x"
        with pytest.raises(ConfigError, match="not used at another endpoint, region or account"):
            location_at(scheme, stranger.url(HERE)).open(connection).get("x")
    assert stranger.connections == 0


def test_credentials_are_used_at_their_account_alone() -> None:
    with SpyServer() as spy:
        endpoint = AzureEndpoint("own", url=spy.url(HERE))
        connection = connected("abfss", AzureKeys(account_key=KEY), Audience.of([endpoint]))
        with pytest.raises(ConfigError, match=r"are for .* \(own\)"):
            location_at("abfss", spy.url(HERE), "other").open(connection).get("x")
        every = Audience.of([AzureEndpoint("", url=spy.url(HERE))])
        anybody = connected("abfss", Keyless.ANONYMOUS, every)
        assert location_at("abfss", spy.url(HERE), "other").open(anybody).get("x") == b"x"
    assert spy.connections == 1


def of_tenant(url: str) -> AzureKeys:
    return AzureKeys(
        tenant_id=CLIENT.tenant_id,
        client_id=CLIENT.client_id,
        client_secret=CLIENT.client_secret,
        authority_host=url,
    )


def token_answer(_: SeenRequest) -> bytes:
    return answer(json.dumps({"access_token": "the-own-token", "expires_in": 3600}).encode())


def test_a_clients_secret_is_exchanged_once_for_a_token() -> None:
    with SpyServer(token_answer) as login, SpyServer() as spy:
        store = location_at("abfss", spy.url(HERE)).open(
            connected("abfss", of_tenant(login.url(HERE)))
        )
        for _ in range(2):
            assert store.get("x") == b"x"
    assert {request.headers["authorization"] for request in spy.requests} == {
        "Bearer the-own-token"
    }
    (asked,) = login.requests
    assert asked.target == "/own-tenant/oauth2/v2.0/token"
    form = parse_qs(asked.body.decode())
    assert form["client_secret"] == ["the-client-secret"]
    assert form["scope"] == ["https://storage.azure.com/.default"]
    assert masked("the-own-token and the-client-secret") == "*** and ***"


@pytest.mark.parametrize(
    "said",
    [
        answer(b"{}", status="401 Unauthorized"),
        answer(b"no json", status="200 OK"),
        answer(b"", "Location: http://127.0.0.1:9/", status="302 Found"),
    ],
    ids=("refused", "no json", "redirect"),
)
def test_a_server_of_tokens_that_gives_none_is_named(said: bytes) -> None:
    with SpyServer(lambda _: said) as login, SpyServer() as spy:
        keys = of_tenant(login.url(HERE))
        store = location_at("abfss", spy.url(HERE)).open(connected("abfss", keys))
        with pytest.raises(StorageUnavailableError, match=r"gives no token.*AZURE_CLIENT_SECRET"):
            store.get("x")
    assert spy.requests == []


@pytest.mark.parametrize(
    "host",
    ["ftp://127.0.0.1:{port}", "file:///etc", "data:,", "127.0.0.1", "http://a:b@127.0.0.1:{port}"],
)
def test_what_is_no_server_of_tokens_is_not_asked(host: str) -> None:
    """A tenant's Secret names it: Python would open it past the proxy."""
    with SpyServer(token_answer) as login, SpyServer() as spy:
        keys = of_tenant(host.format(port=login.port))
        with pytest.raises(ConfigError, match="AZURE_AUTHORITY_HOST is not a server") as refused:
            location_at("abfss", spy.url(HERE)).open(connected("abfss", keys)).get("x")
        assert host.format(port=login.port) not in str(refused.value)
        with pytest.raises(IdentityError, match="cannot be reached: its URL is none of HTTP"):
            url = f"ftp://127.0.0.1:{login.port}"
            answer_to_form(url, {}, name="the server", authorities=None, egress=None)
    assert login.connections == 0


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    running = EgressProxy(AddressRules(), remedy=": the remedy", limits=PATIENT).start()
    yield running
    running.close()


def test_nothing_is_connected_to_on_this_machine(
    proxy: EgressProxy, google: GoogleKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a store nor a server of tokens, by a tenant who names one; whatever the environment
    says of proxies."""
    monkeypatch.delenv("GOOGLE_BEARER_TOKEN")
    monkeypatch.setenv("NO_PROXY", "*")
    words = r"127\.0\.0\.1 is a loopback address that is not connected to: the remedy"
    given: Mapping[str, SecretKeys] = {"gs": google, "abfss": AzureKeys(account_key=KEY)}
    with SpyServer(token_answer) as spy:
        for scheme, credentials in given.items():
            connection = StoreConnection(
                credentials, scheme=scheme, limits=LIMITS, egress=proxy.of("lake")
            )
            for url in (spy.url(HERE), f"https://{HERE}:{spy.port}"):
                with pytest.raises(StorageUnavailableError, match=words):
                    location_at(scheme, url).open(connection).get("x")
        client = StoreConnection(
            of_tenant(spy.url(HERE)), scheme="abfss", limits=LIMITS, egress=proxy.of("lake")
        )
        with pytest.raises(StorageUnavailableError, match=words):
            location_at("abfss", "https://store.test").open(client).get("x")
    assert spy.connections == 0


def test_credentials_are_not_shown_and_not_pickled(google: GoogleKey) -> None:
    for keys in (google, AzureKeys(account_key=KEY), CLIENT):
        assert repr(keys) == f"{type(keys).__name__}(...)"
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(keys)


@pytest.mark.parametrize(
    "text",
    [
        "no key, a-secret",
        json.dumps({"type": "authorized_user", "refresh_token": "a-secret"}),
        json.dumps({"type": "external_account", "token_url": "http://169.254.169.254/a-secret"}),
    ],
)
def test_what_is_no_key_of_a_service_account_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="the key ") as caught:
        GoogleKey.of(text, "the key")
    assert "a-secret" not in str(caught.value)


def test_a_key_that_names_a_server_leads_nowhere_else(
    google: GoogleKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_BEARER_TOKEN")
    with SpyServer() as stranger:
        content = {**json.loads(google.text), "gcs_base_url": stranger.url(HERE),
                   "token_uri": stranger.url(HERE)}  # fmt: skip
        request = seen("gs", GoogleKey.of(json.dumps(content), "the key"))
    assert signer_of(request.headers["authorization"]) == ACCOUNT
    assert stranger.connections == 0
