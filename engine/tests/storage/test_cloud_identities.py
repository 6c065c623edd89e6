"""Whose credentials sign requests to Google's and to Azure's storage; none of them is shown."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.azure import identity as azure_identity
from tideline.storage.gcs import identity as gcs_identity
from tideline.storage.gcs.machine_token import MachineToken
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import Written
from tideline.storage.remote.identity import IdentityError, allow_only_explicit_identities
from tideline.testing.gcs_server import GcsServer
from tideline.testing.loopback_server import LoopbackServer

GCS = StoreLocation.of("gs://lake/t")
AZURE = StoreLocation.of("abfss://lake@acct.dfs.core.windows.net/t")
KEY = {
    "type": "service_account",
    "client_email": "lake@example.com",
    "private_key": "-----BEGIN PRIVATE KEY-----some-very-secret-words",
    "private_key_id": "1",
}
TOKEN = "some-token-of-the-machine"


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


class Metadata(BaseHTTPRequestHandler):
    """Google's metadata service; refuses what does not say that it is meant."""

    def do_GET(self) -> None:
        is_meant = self.headers.get("Metadata-Flavor") == "Google"
        is_token = self.path.endswith("/service-accounts/default/token")
        body = json.dumps({"access_token": TOKEN, "expires_in": 3599}) if is_token else "v1/"
        self.send_response(200 if is_meant else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def metadata() -> Iterator[str]:
    with LoopbackServer(Metadata) as server:
        yield server.url.removeprefix("http://")


def test_without_credentials_configuration_is_at_fault() -> None:
    with pytest.raises(ConfigError, match="set GOOGLE_APPLICATION_CREDENTIALS"):
        GCS.open().get("x")
    with pytest.raises(ConfigError, match="set AZURE_STORAGE_ACCOUNT_KEY"):
        AZURE.open().get("x")


def test_a_process_without_an_identity_of_its_own_uses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "some-token")
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "some-token")
    allow_only_explicit_identities()
    try:
        for location in (GCS, AZURE):
            with pytest.raises(ConfigError, match="no identity of its own"):
                location.open().get("x")
    finally:
        allow_only_explicit_identities(False)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_key_of_google_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_file: bool
) -> None:
    text = json.dumps(KEY)
    if is_file:
        (tmp_path / "key.json").write_text(text)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    else:
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", text)
    with pytest.raises(ConfigError, match="check the service account's key") as caught:
        GCS.open().get("x")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert "very-secret" not in masked(f"the server says: {KEY['private_key']}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read GOOGLE_APPLICATION_CREDENTIALS: No such file"),
        ("no json, a-secret", "is not a key of Google in JSON"),
        ('["a-secret"]', "is not a key of Google in JSON"),
        ('{"type": "external_account", "audience": "a-secret"}', "not supported.*external_account"),
    ],
)
def test_a_file_that_is_no_key_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(ConfigError, match=said) as caught:
        GCS.open().get("x")
    assert "a-secret" not in str(caught.value)


def test_a_machine_gives_a_token(monkeypatch: pytest.MonkeyPatch, metadata: str) -> None:
    monkeypatch.delenv("NO_GCE_CHECK")
    monkeypatch.setenv("GCE_METADATA_HOST", metadata)
    with GcsServer("lake", token=TOKEN) as server:
        store = StoreLocation.of("gs://lake/t", server.storage_options()).open()
        assert isinstance(store.put_if_absent("x", b"1"), Written)
    assert TOKEN not in masked(f"a message with {TOKEN}")


def test_a_machine_that_gives_no_token_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nowhere = "http://127.0.0.1:1"
    monkeypatch.setattr("tideline.storage.gcs.identity.machine_token_url", lambda _: nowhere)
    with pytest.raises(IdentityError, match="the platform gives no token"):
        MachineToken(nowhere)()
    with pytest.raises(StorageUnavailableError, match="no credentials: the platform gives no tok"):
        GCS.open().get("x")


def test_nobody_is_an_identity_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    with GcsServer("lake") as server:
        store = StoreLocation.of("gs://lake/t", server.storage_options()).open()
        assert isinstance(store.put_if_absent("x", b"1"), Written)
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    assert azure_identity.client_credentials() == {"skip_signature": True}


def test_a_switch_that_is_off_is_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_SKIP_SIGNATURE", "AZURE_SKIP_SIGNATURE", "AZURE_USE_AZURE_CLI"):
        monkeypatch.setenv(name, "false")
    for credentials in (gcs_identity.client_credentials, azure_identity.client_credentials):
        with pytest.raises(ConfigError, match="no credentials for"):
            credentials()


def test_a_credential_comes_before_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", TOKEN)
    with GcsServer("lake", token=TOKEN) as server:
        store = StoreLocation.of("gs://lake/t", server.storage_options()).open()
        assert isinstance(store.put_if_absent("x", b"1"), Written)
        assert store.get("x") == b"1"


def test_a_token_comes_before_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", '{"type": "service_account"}')
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", TOKEN)
    given = gcs_identity.client_credentials()
    assert given["credential_provider"]()["token"] == TOKEN
    assert "service_account_key" not in given


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"AZURE_STORAGE_ACCOUNT_KEY": "k", "AZURE_CLIENT_SECRET": "s"}, "access_key"),
        ({"AZURE_STORAGE_SAS_TOKEN": "sv=1&sig=some-signature"}, "sas_token"),
        ({"AZURE_FEDERATED_TOKEN_FILE": "/t", "AZURE_CLIENT_SECRET": "s"}, "workload_identity"),
        ({"AZURE_CLIENT_SECRET": "s"}, "client_secret"),
        ({"AZURE_STORAGE_TOKEN": "t"}, "bearer_token"),
        ({"AZURE_USE_AZURE_CLI": "true"}, "azure_cli"),
        ({"AZURE_IDENTITY_ENDPOINT": "http://x"}, "managed_identity"),
        ({"AZURE_CREDENTIAL_TYPE": "managed_identity"}, "managed_identity"),
        ({"AZURE_CREDENTIAL_TYPE": "SAS_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY": "k"}, "sas_token"),
    ],
)
def test_the_first_kind_of_credential_is_azures(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], kind: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert azure_identity.client_credentials()["credential_type"] == kind


def test_an_unknown_kind_of_credential_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CREDENTIAL_TYPE", "magic")
    with pytest.raises(ConfigError, match="AZURE_CREDENTIAL_TYPE is one of access_key, sas_token"):
        azure_identity.client_credentials()


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"a-key-of-the-account").decode(), None),
        ("AZURE_STORAGE_ACCOUNT_KEY", "not base64, but-secret", None),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=2020-01-01&sig=a-signature-of-it", "a-signature-of-it"),
        ("AZURE_STORAGE_TOKEN", "a-bearer-token-of-azure", None),
    ],
)
def test_a_credential_of_azure_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, part: str | None
) -> None:
    monkeypatch.setenv(name, value)
    options = {"azure_endpoint": "http://127.0.0.1:1/acct", "allow_http": "true"}
    store = StoreLocation.of(AZURE.uri, options).open()
    with pytest.raises((ConfigError, StorageUnavailableError)) as caught:
        store.put("x", b"1")
    assert value not in str(caught.value)
    assert caught.value.__suppress_context__
    assert (part or value) not in masked(f"the server says {part or value}")
    assert value not in repr(store) + str(store)


def test_a_client_secret_that_is_refused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "a-secret-of-the-client")
    monkeypatch.setenv("AZURE_CLIENT_ID", "client")
    monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "http://127.0.0.1:1")
    options = {"azure_endpoint": "http://127.0.0.1:1/acct", "allow_http": "true"}
    with pytest.raises(StorageUnavailableError, match=r"no token was given.*refused") as caught:
        StoreLocation.of(AZURE.uri, options).open().get("x")
    assert "a-secret" not in str(caught.value)


def test_google_takes_the_file_of_gcloud(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "gcloud" / "application_default_credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"type": "authorized_user", "refresh_token": "a-refresh-token"}))
    expected = {"application_credentials": str(file), "skip_signature": False}
    assert gcs_identity.client_credentials() == expected
    assert "a-refresh-token" not in masked("says a-refresh-token")
