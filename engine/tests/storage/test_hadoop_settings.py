"""What Spark's connectors to Azure and Google Cloud Storage are set to: no secret is in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.storage.location import StoreLocation

HOST = "account.dfs.core.windows.net"
AZURE = StoreLocation.of(f"abfss://lake@{HOST}/people")
GOOGLE = StoreLocation.of("gs://lake/people")
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"


@pytest.fixture(autouse=True)
def no_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"AZURE_STORAGE_ACCOUNT_KEY": "a-secret"},
            {"auth.type": "SharedKey", "key": "${env.AZURE_STORAGE_ACCOUNT_KEY}"},
        ),
        (
            {"AZURE_STORAGE_ACCESS_KEY": "a-secret"},
            {"auth.type": "SharedKey", "key": "${env.AZURE_STORAGE_ACCESS_KEY}"},
        ),
        (
            {
                "AZURE_CLIENT_SECRET": "a-secret",
                "AZURE_CLIENT_ID": "client",
                "AZURE_TENANT_ID": "tenant",
            },
            {
                "auth.type": "OAuth",
                "oauth.provider.type": f"{OAUTH}.ClientCredsTokenProvider",
                "oauth2.client.endpoint": (
                    "https://login.microsoftonline.com/tenant/oauth2/v2.0/token"
                ),
                "oauth2.client.id": "client",
                "oauth2.client.secret": "${env.AZURE_CLIENT_SECRET}",
            },
        ),
        (
            {
                "AZURE_FEDERATED_TOKEN_FILE": "/token",
                "AZURE_CLIENT_ID": "client",
                "AZURE_TENANT_ID": "tenant",
                "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.us/",
            },
            {
                "auth.type": "OAuth",
                "oauth.provider.type": f"{OAUTH}.WorkloadIdentityTokenProvider",
                "oauth2.msi.authority": "https://login.microsoftonline.us/",
                "oauth2.msi.tenant": "tenant",
                "oauth2.client.id": "client",
                "oauth2.token.file": "/token",
            },
        ),
        (
            {"AZURE_CREDENTIAL_TYPE": "managed_identity", "AZURE_CLIENT_ID": "client"},
            {
                "auth.type": "OAuth",
                "oauth.provider.type": f"{OAUTH}.MsiTokenProvider",
                "oauth2.client.id": "client",
            },
        ),
    ],
)
def test_credentials_of_azure(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: dict[str, str]
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = AZURE.hadoop_settings()
    assert settings == {
        f"fs.azure.account.{name}.{HOST}": value for name, value in expected.items()
    }


def test_a_signature_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=a-secret")
    assert AZURE.hadoop_settings() == {
        f"fs.azure.account.auth.type.{HOST}": "SAS",
        f"fs.azure.sas.fixed.token.{HOST}": "${env.AZURE_STORAGE_SAS_TOKEN}",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"AZURE_STORAGE_TOKEN": "a-secret"}, "a token as it is"),
        ({"AZURE_SKIP_SIGNATURE": "true"}, "requests that nobody signs"),
        ({"AZURE_USE_AZURE_CLI": "true"}, "the login of Azure's command line"),
    ],
)
def test_what_hadoop_does_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], words: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"Spark does not read Azure with {words}"):
        AZURE.hadoop_settings()


def test_a_variable_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "a-secret")
    with pytest.raises(ConfigError, match="AZURE_TENANT_ID is not in the environment: set it"):
        AZURE.hadoop_settings()


def test_another_server_of_azure_is_reached_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a-secret")
    options = {"azure_endpoint": "http://127.0.0.1:1000/account", "allow_http": "true"}
    found = StoreLocation.of(AZURE.uri, options)
    settings = found.hadoop_settings()
    assert settings["fs.azure.abfs.endpoint"] == "127.0.0.1:1000"
    assert settings["fs.azure.always.use.https"] == "false"
    assert found.spark_uri("x") == f"abfs://lake@{HOST}/people/x"
    assert AZURE.spark_uri("x") == f"abfss://lake@{HOST}/people/x"


def test_a_key_of_google_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account", "token_uri": "https://elsewhere"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    assert GOOGLE.hadoop_settings() == {
        "fs.gs.auth.service.account.enable": "true",
        "fs.gs.auth.null.enable": "false",
        "fs.gs.auth.service.account.json.keyfile": str(key),
        "fs.gs.token.server.url": "https://oauth2.googleapis.com/token",
    }


def test_nobody_asks_no_metadata_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    settings = StoreLocation.of(
        GOOGLE.uri, {"gcs_endpoint": "http://127.0.0.1:1000", "allow_http": "true"}
    ).hadoop_settings()
    assert settings == {
        "fs.gs.auth.service.account.enable": "false",
        "fs.gs.auth.null.enable": "true",
        "fs.gs.storage.root.url": "http://127.0.0.1:1000/",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"GOOGLE_BEARER_TOKEN": "a-secret"}, "the token of GOOGLE_BEARER_TOKEN"),
        (
            {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"type": "service_account", "private_key": "secret"}'},
            "the key in GOOGLE_SERVICE_ACCOUNT_KEY",
        ),
    ],
)
def test_what_the_connector_to_google_does_not_take_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], words: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"Spark does not read Google .* with {words}"):
        GOOGLE.hadoop_settings()


def test_a_users_consent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "user.json"
    file.write_text(json.dumps({"type": "authorized_user", "refresh_token": "a-secret"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(ConfigError, match="the file of a user's consent"):
        GOOGLE.hadoop_settings()


def test_another_authority_is_refused_for_google(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    options = {"gcs_endpoint": "https://127.0.0.1:1000", "ca_bundle": "/ca.pem"}
    with pytest.raises(ConfigError, match="trusts no ca_bundle"):
        StoreLocation.of(GOOGLE.uri, options).hadoop_settings()
