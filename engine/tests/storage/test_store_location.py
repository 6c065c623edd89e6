"""Parsing locations and their options."""

import os
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.storage.local.store import LocalStore
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.s3.store import S3Store


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("/data/t", "file:///data/t"),
        ("/data/t/", "file:///data/t"),
        ("/data/../x/./t", "file:///x/t"),
        ("file:///data/a b%20c", "file:///data/a b%20c"),
        ("file:/data/t", "file:///data/t"),
        ("file://localhost/data/t", "file:///data/t"),
        ("FILE:///data/t", "file:///data/t"),
        ("/", "file:///"),
        ("/odd:name/t", "file:///odd:name/t"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3a://bucket/a/b/", "s3://bucket/a/b"),
        ("s3n://bucket//a///b", "s3://bucket/a/b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/ün/c d#e?f", "s3://bucket/ün/c d#e?f"),
        ("memory://name/t", "memory://name/t"),
    ],
)
def test_a_location_has_one_form(given: str, uri: str) -> None:
    location = StoreLocation.of(given)
    assert location.uri == uri
    assert StoreLocation.of(uri) == location
    assert location.open().uri == uri


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StoreLocation.of("data/t").uri == f"file://{tmp_path}/data/t"
    assert StoreLocation.of(Path("t")).uri == f"file://{tmp_path}/t"


def test_a_scheme_opens_its_store() -> None:
    assert isinstance(StoreLocation.of("/t").open(), LocalStore)
    assert isinstance(StoreLocation.of("memory://t").open(), MemoryStore)
    assert isinstance(StoreLocation.of("s3://b/t").open(), S3Store)


def test_opening_requests_nothing_and_writes_nothing(tmp_path: Path) -> None:
    StoreLocation.of(str(tmp_path / "t")).open()
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "given",
    [
        "",
        "http://host/t",
        "oss://bucket/t",
        "file://host/t",
        "file:relative",
        "s3:bucket/t",
        "s3://",
        "s3:///t",
        "s3://bucket/../t",
        "s3://bucket/a\nb",
        "s3://../bucket/t",
        "s3://./t",
        "s3://bucket?policy&x/t",
        "s3://bucket#x/t",
        "s3://bucket%2Fother/t",
        "gs://../bucket/t",
    ],
)
def test_other_locations_are_refused(given: str) -> None:
    with pytest.raises(ConfigError):
        StoreLocation.of(given)


@pytest.mark.parametrize(
    "name",
    [
        "access_key_id",
        "AWS_SECRET_ACCESS_KEY",
        "secret",
        "session_token",
        "password",
        "fs.s3a.access.key",
        "credentials",
    ],
)
def test_credentials_are_refused_without_being_repeated(name: str) -> None:
    with pytest.raises(ConfigError, match="environment") as caught:
        StoreLocation.of("s3://b/t", {name: "hunter2"})
    assert "hunter2" not in str(caught.value)
    assert name in str(caught.value)


def test_credentials_in_a_uri_are_refused_without_being_repeated() -> None:
    for uri, options in (
        ("s3://key:hunter2@bucket/t", {}),
        ("s3://b/t", {"endpoint": "https://key:hunter2@host"}),
        ("abfss://lake:hunter2@acct.dfs.core.windows.net/t", {}),
        ("az://lake/t?sv=2024&sig=hunter2", {"azure_account": "acct"}),
    ):
        with pytest.raises(ConfigError, match="environment") as caught:
            StoreLocation.of(uri, options)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"unknown": "x"},
        {"path_style": "yes"},
        {"allow_http": "1"},
        {"endpoint": "host:9000"},
        {"endpoint": "ftp://host"},
        {"endpoint": "http://host:9000"},
        {"endpoint": "https://host/?x=1"},
    ],
)
def test_wrong_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        StoreLocation.of("s3://b/t", options)


def test_options_are_kept_in_one_form_and_by_children() -> None:
    location = StoreLocation.of(
        "s3://b/t", {"path_style": True, "endpoint": "http://h:9/", "allow_http": "True"}
    )
    assert location.options == (
        ("allow_http", "true"),
        ("endpoint", "http://h:9"),
        ("path_style", "true"),
    )
    assert location.child("day=1/x").uri == "s3://b/t/day=1/x"
    assert location.child("day=1").options == location.options
    assert location.child("") == location
    assert hash(location) == hash(location.child(""))


def test_options_do_not_distinguish_local_folders() -> None:
    assert StoreLocation.of("/t", {"region": "x"}) == StoreLocation.of("/t")


@pytest.mark.parametrize(
    ("uri", "path", "expected"),
    [
        ("/data/t", "", "file:/data/t"),
        ("/data/t", "day=1/x.parquet", "file:/data/t/day=1/x.parquet"),
        ("/", "x", "file:/x"),
        ("s3://b/t", "", "s3a://b/t"),
        ("s3://b/t", "day=1/x.parquet", "s3a://b/t/day=1/x.parquet"),
        ("s3://b", "x", "s3a://b/x"),
    ],
)
def test_spark_gets_its_own_schemes(uri: str, path: str, expected: str) -> None:
    assert StoreLocation.of(uri).spark_uri(path) == expected


def test_spark_cannot_read_memory() -> None:
    with pytest.raises(ConfigError):
        StoreLocation.of("memory://m").spark_uri()


def test_the_default_endpoint_is_amazons_own_regardless_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(os.environ, "AWS_ENDPOINT_URL", "http://elsewhere")
    store = StoreLocation.of("s3://b/t", {"region": "eu-west-1"}).open()
    assert isinstance(store, S3Store)
    assert str(store) == "s3://b/t at https://s3.eu-west-1.amazonaws.com"


@pytest.mark.parametrize("region", ["evil.test/", "evil.test:9000/#", "a.b", "a@b", ""])
def test_a_region_names_no_server_but_one_of_aws(region: str) -> None:
    with pytest.raises(ConfigError, match="the region must be one of AWS"):
        StoreLocation.of("s3://bucket/table", {"region": region})
    options = {"region": region, "endpoint": "https://store.test"}
    assert StoreLocation.of("s3://bucket/table", options).server() == "https://store.test"


@pytest.mark.parametrize("bucket", ["evil.test?", "evil.test#", "a\\b"])
@pytest.mark.parametrize("path_style", ["true", "false"])
def test_a_bucket_is_a_part_of_a_url(bucket: str, path_style: str) -> None:
    options = {"endpoint": "https://store.test", "path_style": path_style}
    with pytest.raises(ConfigError, match="write s3://name/path"):
        StoreLocation.of(f"s3://{bucket}/table", options)


@pytest.mark.parametrize("bucket", ["evil.test:9000", ".b"])
def test_a_bucket_in_the_name_of_a_host_names_no_other_server(bucket: str) -> None:
    options = {"endpoint": "https://store.test", "path_style": "false"}
    with pytest.raises(ConfigError, match="the bucket cannot be a part of a host name"):
        StoreLocation.of(f"s3://{bucket}/table", options)
    assert StoreLocation.of("s3://my.bucket/t", options).server() == "https://my.bucket.store.test"
    in_path = {**options, "path_style": "true"}
    assert StoreLocation.of(f"s3://{bucket}/table", in_path).server() == "https://store.test"


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "10.0.0.7", "10.0.0.7/", "[::1]:9000"])
def test_an_address_by_number_takes_buckets_in_the_path_only(host: str) -> None:
    """The client for S3 ends its thread over a host name such as lake.127.0.0.1."""
    options = {"endpoint": f"http://{host}", "allow_http": "true"}
    assert StoreLocation.of("s3://lake/t", options).server() == f"http://{host}".rstrip("/")
    with pytest.raises(ConfigError, match="IP address") as refused:
        StoreLocation.of("s3://lake/t", {**options, "path_style": "false"})
    assert "pathStyle" in str(refused.value)
