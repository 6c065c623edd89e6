"""Locations on Google's and on Azure's storage: one form of each, and none leads elsewhere."""

from __future__ import annotations

import pickle

import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.table.file_io import FileIO
from tideline.storage.azure.store import AzureStore
from tideline.storage.gcs.store import GcsStore
from tideline.storage.location import StoreLocation
from tideline.storage.named_places import checked_place, normalised
from tideline.storage.remote.connection import Keyless, StoreConnection

ACCOUNT = "abfss://lake@acct.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("gs://lake//a/b/", "gs://lake/a/b"),
        ("GCS://lake/a", "gs://lake/a"),
        (f"{ACCOUNT}/a/b/", f"{ACCOUNT}/a/b"),
        ("abfs://lake@acct.dfs.core.windows.net", ACCOUNT),
        ("wasbs://lake@acct.blob.core.windows.net/a", f"{ACCOUNT}/a"),
        ("abfss://lake@acct.dfs.core.usgovcloudapi.net/a",
         "abfss://lake@acct.dfs.core.usgovcloudapi.net/a"),
        ("abfss://lake@ACCT.dfs.core.windows.net/ä b", f"{ACCOUNT}/ä b"),
    ],
)  # fmt: skip
def test_spellings_of_one_place(given: str, uri: str) -> None:
    found = StoreLocation.of(given)
    assert found.uri == uri
    assert StoreLocation.of(found.uri) == found
    assert normalised(found.uri) == uri
    assert found.spark_uri("x") == f"{uri}/x"
    assert found.open().uri == uri
    assert pickle.loads(pickle.dumps(found.open())).uri == uri


def test_an_account_is_compared_in_any_case() -> None:
    """Metadata may spell it otherwise than the location: a file that is in use is no orphan."""
    io = FileIO(StoreLocation.of(f"{ACCOUNT}/a"), "wasbs://lake@Acct.blob.core.windows.net/a")
    for account in ("acct", "ACCT"):
        place = f"abfss://lake@{account}.dfs.core.windows.net/a/b"
        assert io.actual_uri(place) == f"{ACCOUNT}/a/b"


def test_a_declared_place_names_its_account() -> None:
    assert checked_place(f"{ACCOUNT}/a") == f"{ACCOUNT}/a"
    with pytest.raises(ConfigError, match="write abfss://container@account"):
        checked_place("az://lake/a")


def test_an_account_is_that_of_the_options_or_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match=r"names no account of Azure.*--azure-account"):
        StoreLocation.of("az://lake/a")
    assert StoreLocation.of("az://lake/a", {"azure_account": "acct"}).uri == f"{ACCOUNT}/a"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acct")
    assert StoreLocation.of("az://lake/a").uri == f"{ACCOUNT}/a"
    assert StoreLocation.of("abfss://lake/a", {"azure_account": "other"}).uri == (
        "abfss://lake@other.dfs.core.windows.net/a"
    )


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("gs://", "write gs://name/path"),
        ("gs://me@lake/a", "credentials do not belong"),
        ("gs://lake/a/../b", r"'\.\.'"),
        ("az://LAKE/a", "write abfss://container@account"),
        ("az://lake#x/a", "write abfss://container@account"),
        ("abfss://lake@evil.example.com/a", "names no account of Azure"),
        ("abfss://lake@acct.dfs.core.windows.net.evil.com/a", "names no account of Azure"),
        ("abfss://lake@acct.dfs.core.windows.net:80/a", "names no account of Azure"),
        ("abfss://lake@acct.dfs.fabric.microsoft.com/a", "names no account of Azure"),
        ("abfss://lake@a/b@acct.dfs.core.windows.net/a", "names no account of Azure"),
        (f"{ACCOUNT}/a/../b", r"'\.\.'"),
    ],
)
def test_what_names_no_place_is_refused(uri: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        StoreLocation.of(uri)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gcs_endpoint": "http://127.0.0.1:1"}, "--allow-http"),
        ({"azure_endpoint": "http://127.0.0.1:1/acct"}, "--allow-http"),
        ({"azure_endpoint": "https://me:secret@host/acct"}, "must not carry credentials"),
        ({"gcs_endpoint": "ftp://host"}, "must be a URL"),
        ({"azure_account": "evil.example/"}, "lower-case letters and digits"),
        ({"azure_account_key": "k"}, "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_options_are_checked_whatever_the_location(options: dict[str, str], said: str) -> None:
    for uri in ("gs://lake/a", f"{ACCOUNT}/a", "s3://lake/a", "/data/a"):
        with pytest.raises(ConfigError, match=said):
            StoreLocation.of(uri, options)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://lake/a?X-Amz-Credential=id&X-Amz-Signature=of-the-user",
        "s3://lake/a?AWSAccessKeyId=id&Signature=of-the-user",
        "gs://lake/a?X-Goog-Algorithm=any&X-Goog-Signature=of-the-user",
        f"{ACCOUNT}/a?sv=1&sig=of-the-user",
        "az://of-the-user==@acct/a",
        "az://A-key/of-the-user==@acct.dfs.core.windows.net/a",
        "s3://id:of-the-user@lake/a",
        "https://acct.blob.core.windows.net/lake/a?sv=1&sig=of-the-user",
    ],
)
def test_a_secret_in_a_location_is_refused_and_not_repeated(uri: str) -> None:
    """As presigned addresses have it, and what people paste."""
    with pytest.raises(ConfigError) as caught:
        StoreLocation.of(uri, {"azure_account": "acct"})
    assert "of-the-user" not in str(caught.value)


@pytest.mark.parametrize("name", ["endpoint", "gcs_endpoint", "azure_endpoint"])
@pytest.mark.parametrize(
    "url",
    [
        "https://of-the-user@host/acct",
        "https://host/lake?sv=1&sig=of-the-user",
        "https://host/lake?X-Amz-Signature=of-the-user",
        "DefaultEndpointsProtocol=https;AccountName=own;AccountKey=of-the-user",
    ],
)
def test_a_secret_in_an_endpoint_is_refused_and_not_repeated(name: str, url: str) -> None:
    with pytest.raises(ConfigError, match="must not carry credentials") as caught:
        StoreLocation.of("s3://lake/a", {name: url})
    assert "of-the-user" not in str(caught.value)


@pytest.mark.parametrize(
    "uri",
    ["s3://lake/password=1/a", "gs://lake/q=a?b=1", "s3://lake/url=https%3A%2F%2Fx%3Fsig%3D1",
     f"{ACCOUNT}/sig=1"],
)  # fmt: skip
def test_what_only_looks_like_one_is_a_path(uri: str) -> None:
    assert StoreLocation.of(uri).uri == uri


def test_a_location_keeps_the_options_of_its_own_store() -> None:
    given = {
        "endpoint": "https://s3.example",
        "gcs_endpoint": "https://gcs.example",
        "azure_endpoint": "https://azure.example/acct",
    }
    gcs, azure = (StoreLocation.of(uri, given) for uri in ("gs://lake/a", f"{ACCOUNT}/a"))
    assert gcs.options == (("gcs_endpoint", "https://gcs.example"),)
    assert (gcs.server(), azure.server()) == ("https://gcs.example", "https://azure.example/acct")


def test_no_setting_of_the_environment_leads_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, "https://elsewhere.example")
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURE_CONTAINER_NAME", "elsewhere")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "elsewhere")
    monkeypatch.setenv("GOOGLE_BUCKET", "elsewhere")
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "some-token")
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "some-token")
    gcs, azure = StoreLocation.of("gs://lake/a").open(), StoreLocation.of(f"{ACCOUNT}/a").open()
    assert isinstance(gcs, GcsStore) and isinstance(azure, AzureStore)
    assert str(gcs) == "gs://lake/a at https://storage.googleapis.com"
    assert str(azure) == f"{ACCOUNT}/a at https://acct.blob.core.windows.net"
    assert gcs._client().config["base_url"] == "https://storage.googleapis.com"
    config = azure._client().config
    assert config["endpoint"] == "https://acct.blob.core.windows.net"
    assert (config["container_name"], config["account_name"]) == ("lake", "acct")


def test_credentials_of_another_kind_of_store_are_not_used_there() -> None:
    for uri in ("gs://lake/a", f"{ACCOUNT}/a"):
        with pytest.raises(ConfigError, match="the credentials are for s3:// locations"):
            StoreLocation.of(uri).open(StoreConnection(Keyless.ANONYMOUS)).get("a")


@pytest.mark.parametrize(
    ("own", "named", "is_read"),
    [
        ("gs://lake/t", "gs://lake/spread/x", True),
        ("gs://lake/t", "gcs://lake/t/x", True),
        ("gs://lake/t", "gs://other/x", False),
        ("gs://lake/t", "s3://lake/x", False),
        (f"{ACCOUNT}/t", f"{ACCOUNT}/spread/x", True),
        (f"{ACCOUNT}/t", "wasbs://lake@acct.blob.core.windows.net/t/x", True),
        (f"{ACCOUNT}/t", "abfss://lake@other.dfs.core.windows.net/x", False),
        (f"{ACCOUNT}/t", "abfss://other@acct.dfs.core.windows.net/x", False),
        (f"{ACCOUNT}/t", f"{ACCOUNT}/spread/../x", False),
    ],
)
def test_metadata_leads_to_the_tables_own_bucket_alone(own: str, named: str, is_read: bool) -> None:
    io = FileIO(StoreLocation.of(own), own, declared=())
    if is_read:
        store, path = io.place(named)
        assert path.endswith("x")
        assert own.startswith(store.uri)
    else:
        with pytest.raises(UnsupportedTableError):
            io.place(named)


def test_another_account_has_other_credentials() -> None:
    store = StoreLocation.of(f"{ACCOUNT}/t").open()
    assert isinstance(store, AzureStore)
    assert store.elsewhere("other@acct.dfs.core.windows.net", "u").uri.endswith("windows.net/u")
    with pytest.raises(ConfigError, match="another account"):
        store.elsewhere("lake@other.dfs.core.windows.net")
