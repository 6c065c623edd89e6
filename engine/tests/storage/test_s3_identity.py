"""Requests to S3 are signed with keys, a web identity, a profile, or the machine's role."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from minio.credentials.providers import AssumeRoleProvider

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.identity import IdentitySource, S3Identity
from tideline.testing.library_apart import BOTO3, import_from, prepare_library
from tideline.testing.loopback_server import LoopbackServer
from tideline.testing.minio_server import MinioServer
from tideline.testing.openid_issuer import DISCOVERY_PATH, OpenIdIssuer, role_arn, trusting

OFF = {"AWS_EC2_METADATA_DISABLED": "true"}
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[OpenIdIssuer]:
    with OpenIdIssuer() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def trusting_minio(issuer: OpenIdIssuer) -> Iterator[MinioServer]:
    """A MinIO that trusts the issuer."""
    with MinioServer(trusting(issuer.url + DISCOVERY_PATH)) as server:
        yield server


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable of AWS is set, and the machine's own metadata service is left alone."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


@pytest.mark.parametrize(
    ("environment", "source"),
    [
        (KEYS, IdentitySource.KEYS),
        ({**KEYS, "AWS_PROFILE": "lake"}, IdentitySource.KEYS),
        ({"AWS_SKIP_SIGNATURE": "true"}, IdentitySource.NOBODY),
        ({"AWS_PROFILE": "lake"}, IdentitySource.PROFILE),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}, IdentitySource.CONTAINER),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://x"}, IdentitySource.CONTAINER),
    ],
)
def test_the_first_source_that_is_given_counts(
    environment: Mapping[str, str], source: IdentitySource
) -> None:
    assert S3Identity.of({**OFF, **environment}).source is source


def test_nothing_given_says_what_may_be() -> None:
    with pytest.raises(ConfigError, match="AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give"):
        S3Identity.of(OFF)
    with pytest.raises(ConfigError, match="set AWS_ACCESS_KEY_ID"):
        S3Identity.of({**OFF, "AWS_ACCESS_KEY_ID": "key"})


def test_a_token_needs_a_role_and_a_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    given = {**OFF, "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
    with pytest.raises(ConfigError, match="AWS_ROLE_ARN is not"):
        S3Identity.of(given)
    given["AWS_ROLE_ARN"] = "arn:minio:iam:::role/x"
    with pytest.raises(ConfigError, match="cannot read AWS_WEB_IDENTITY_TOKEN_FILE"):
        S3Identity.of(given)
    token.write_text("one\n")
    identity = S3Identity.of(given)
    assert (str(identity), identity.read_token()) == (
        "a web identity token for arn:minio:iam:::role/x",
        "one",
    )
    token.write_text("two\n")
    assert identity.read_token() == "two"


@pytest.mark.minio
def test_a_web_identity_reads_and_writes(
    trusting_minio: MinioServer,
    issuer: OpenIdIssuer,
    no_credentials: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    _give_token(no_credentials, trusting_minio, issuer.token(), tmp_path)
    options = {**trusting_minio.storage_options(), "create_bucket": "true"}
    location = StoreLocation.of("s3://tideline-web-identity/table", options)
    assert location.create_missing()
    store = location.open()
    store.put("x", b"1")
    assert store.get("x") == b"1"


@pytest.mark.minio
def test_a_token_that_is_not_trusted_is_refused_and_not_shown(
    trusting_minio: MinioServer, no_credentials: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with OpenIdIssuer() as stranger:
        token = stranger.token()
    _give_token(no_credentials, trusting_minio, token, tmp_path)
    options = {**trusting_minio.storage_options(), "create_bucket": "true"}
    location = StoreLocation.of(f"s3://{trusting_minio.create_bucket()}/table", options)
    missing = StoreLocation.of("s3://tideline-of-a-stranger/table", options)
    for action in (lambda: location.open().get("x"), missing.create_missing):
        with pytest.raises(StorageUnavailableError) as caught:
            action()
        assert token[:40] not in str(caught.value)
        assert caught.value.__suppress_context__


@pytest.mark.minio
def test_temporary_keys_carry_their_token(
    minio_server: MinioServer, no_credentials: pytest.MonkeyPatch
) -> None:
    location = _location(minio_server)
    keys = _temporary_keys(minio_server)
    for name, value in keys.items():
        no_credentials.setenv(name, value)
    location.open().put("x", b"1")
    no_credentials.setenv("AWS_SESSION_TOKEN", "of somebody else")
    credentials = S3Credentials(
        keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], keys["AWS_SESSION_TOKEN"]
    )
    assert location.open(StoreConnection(credentials)).get("x") == b"1"
    lasting = S3Credentials(minio_server.access_key, minio_server.secret_key)
    assert location.open(StoreConnection(lasting)).get("x") == b"1"


@pytest.mark.minio
def test_a_profile_reads_and_writes(
    minio_server: MinioServer, no_credentials: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import_from(prepare_library(BOTO3), "boto3")
    shared = tmp_path / "credentials"
    shared.write_text(
        f"[lake]\naws_access_key_id = {minio_server.access_key}\n"
        f"aws_secret_access_key = {minio_server.secret_key}\n"
    )
    no_credentials.setenv("AWS_SHARED_CREDENTIALS_FILE", str(shared))
    no_credentials.setenv("AWS_PROFILE", "lake")
    store = _location(minio_server).open()
    store.put("x", b"1")
    assert store.get("x") == b"1"
    no_credentials.setenv("AWS_PROFILE", "sea")
    with pytest.raises(ConfigError, match="a profile that has no credentials"):
        _location(minio_server).open().get("x")


@pytest.mark.minio
def test_an_instance_has_its_role(
    minio_server: MinioServer, no_credentials: pytest.MonkeyPatch
) -> None:
    location = _location(minio_server)
    with _metadata_service(_temporary_keys(minio_server)) as url:
        no_credentials.delenv("AWS_EC2_METADATA_DISABLED")
        no_credentials.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{url}/")
        assert S3Identity.of(os.environ).source is IdentitySource.INSTANCE
        store = location.open()
        store.put("x", b"1")
        assert store.get("x") == b"1"


def test_what_answers_otherwise_is_no_metadata_service(
    no_credentials: pytest.MonkeyPatch, issuer: OpenIdIssuer
) -> None:
    no_credentials.delenv("AWS_EC2_METADATA_DISABLED")
    no_credentials.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", issuer.url)
    with pytest.raises(ConfigError, match="no S3 credentials"):
        S3Identity.of(os.environ)


def _location(server: MinioServer) -> StoreLocation:
    return StoreLocation.of(f"s3://{server.create_bucket()}/table", server.storage_options())


def _give_token(
    environment: pytest.MonkeyPatch, server: MinioServer, token: str, folder: Path
) -> None:
    file = folder / "token"
    file.write_text(token)
    environment.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
    environment.setenv("AWS_ROLE_ARN", role_arn())
    environment.setenv("AWS_ENDPOINT_URL_STS", server.endpoint)


def _temporary_keys(server: MinioServer) -> Mapping[str, str]:
    found = AssumeRoleProvider(
        sts_endpoint=server.endpoint, access_key=server.access_key, secret_key=server.secret_key
    ).retrieve()
    assert found.session_token
    return {
        "AWS_ACCESS_KEY_ID": found.access_key,
        "AWS_SECRET_ACCESS_KEY": found.secret_key,
        "AWS_SESSION_TOKEN": found.session_token,
    }


@contextmanager
def _metadata_service(keys: Mapping[str, str]) -> Iterator[str]:
    """A machine's metadata service (IMDSv2) with one role."""
    role = {
        "Code": "Success",
        "AccessKeyId": keys["AWS_ACCESS_KEY_ID"],
        "SecretAccessKey": keys["AWS_SECRET_ACCESS_KEY"],
        "Token": keys["AWS_SESSION_TOKEN"],
        "Expiration": "2100-01-01T00:00:00Z",
    }
    folder = "/latest/meta-data/iam/security-credentials/"
    pages = {folder: "lake", f"{folder}lake": json.dumps(role)}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer("a-token" if self.path == "/latest/api/token" else None)

        def do_GET(self) -> None:
            is_known = self.headers.get("X-aws-ec2-metadata-token") == "a-token"
            self._answer(pages.get(self.path) if is_known else None)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing to say."""

        def _answer(self, text: str | None) -> None:
            body = (text or "").encode()
            self.send_response(404 if text is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with LoopbackServer(Handler) as server:
        yield server.url
