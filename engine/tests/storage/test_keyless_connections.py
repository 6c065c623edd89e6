"""Whose identity signs requests is said, and credentials are used where they are meant for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.secret_values import masked
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.location import StoreLocation
from tideline.storage.remote import token_request
from tideline.storage.remote.connection import Audience, Keyless, StoreConnection
from tideline.storage.remote.identity import IdentityError, allow_only_explicit_identities
from tideline.storage.s3.client import S3Credentials, S3Endpoint
from tideline.storage.s3.machine_credentials import MachineCredentials
from tideline.storage.s3.web_identity import WebIdentity
from tideline.testing.egress_case import PATIENT
from tideline.testing.minio_server import MinioServer
from tideline.testing.patience import PATIENCE_S
from tideline.testing.spy_server import SeenRequest, SpyServer, answer
from tideline.trust.addresses import AddressRules

HERE = "127.0.0.1"
DENIED = b"<Error><Code>AccessDenied</Code></Error>"
GIVEN = {
    "AccessKeyId": "MACHINE-ID",
    "SecretAccessKey": "the-machine-secret",
    "Token": "the-machine-token",
    "Expiration": "2126-01-01T00:00:00Z",
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_request, "_TIMEOUT_S", PATIENCE_S)


@pytest.fixture
def ambient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with every identity that there is."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AMBIENT-ID",
        "AWS_SECRET_ACCESS_KEY": "the-ambient-secret",
        "AWS_SESSION_TOKEN": "the-ambient-token",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere/token",
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/ambient",
        "AWS_PROFILE": "ambient",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/ambient",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)


def this_machine(host: str, _: int) -> tuple[str, tuple[str, ...]]:
    return host, (HERE,)


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    rules = AddressRules.of("127.0.0.0/8")
    running = EgressProxy(rules, resolve=this_machine, limits=PATIENT).start()
    yield running
    running.close()


def location_at(spy: SpyServer, host: str = HERE, region: str = "us-east-1") -> StoreLocation:
    options = {"endpoint": spy.url(host), "allow_http": "true", "region": region}
    return StoreLocation.of("s3://bucket/table", options)


@pytest.mark.usefixtures("ambient")
def test_an_anonymous_connection_signs_nothing_whatever_the_environment_has() -> None:
    with SpyServer() as spy:
        store = location_at(spy).open(StoreConnection(Keyless.ANONYMOUS))
        assert store.get("x") == b"x"
        store.put("x", b"1")
    assert len(spy.requests) == 2
    sent = spy.seen().lower()
    assert "authorization" not in sent and "token" not in sent and "ambient" not in sent


@pytest.mark.usefixtures("ambient")
def test_the_identity_of_the_process_is_used_when_a_connection_names_it() -> None:
    with SpyServer() as spy:
        location_at(spy).open(StoreConnection(Keyless.AMBIENT)).get("x")
    assert "Credential=AMBIENT-ID/" in spy.seen()


@pytest.mark.usefixtures("ambient")
def test_where_identities_are_explicit_a_store_without_a_connection_is_not_opened() -> None:
    allow_only_explicit_identities()
    try:
        with SpyServer() as spy:
            with pytest.raises(ConfigError, match="no identity of its own at stores"):
                location_at(spy).open().get("x")
            options = dict(location_at(spy).options) | {"create_bucket": "true"}
            with pytest.raises(ConfigError, match="no identity of its own at stores"):
                StoreLocation.of("s3://new/table", options).create_missing()
            assert location_at(spy).open(StoreConnection(Keyless.ANONYMOUS)).get("x") == b"x"
    finally:
        allow_only_explicit_identities(False)
    assert len(spy.requests) == 1


def test_advice_for_what_is_denied_is_that_of_the_connection() -> None:
    with SpyServer(lambda _: answer(DENIED, status="403 Forbidden")) as spy:
        keys = S3Credentials("KEY-ID", "the-secret-key")
        for connection, advice in (
            (
                StoreConnection(Keyless.ANONYMOUS, denied_advice="name credentials"),
                "name credentials",
            ),
            (StoreConnection(keys), "check the credentials"),
        ):
            with pytest.raises(StorageUnavailableError, match=f"access denied, {advice}"):
                location_at(spy).open(connection).get("x")


@pytest.mark.minio
def test_a_public_bucket_is_read_by_nobody(minio_server: MinioServer, minio_bucket: str) -> None:
    location = StoreLocation.of(f"s3://{minio_bucket}/open", minio_server.storage_options())
    keys = S3Credentials(minio_server.access_key, minio_server.secret_key)
    location.open(StoreConnection(keys)).put("x", b"1")
    anonymous = location.open(StoreConnection(Keyless.ANONYMOUS))
    with pytest.raises(StorageUnavailableError, match="access denied"):
        anonymous.get("x")
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject", "s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{minio_bucket}", f"arn:aws:s3:::{minio_bucket}/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    minio_server.client().set_bucket_policy(minio_bucket, policy)
    assert anonymous.get("x") == b"1"
    assert [item.path for item in anonymous.list()] == ["x"]
    with pytest.raises(StorageUnavailableError, match="access denied"):
        anonymous.put("x", b"2")


def test_credentials_are_not_used_at_another_endpoint_or_region() -> None:
    with SpyServer() as meant, SpyServer() as other:
        endpoint = S3Endpoint(meant.url(HERE), "us-east-1")
        keys = S3Credentials("KEY-ID", "the-secret-key")
        connection = StoreConnection(keys, audience=Audience.of([endpoint]))
        for location in (location_at(other), location_at(meant, region="eu-west-1")):
            with pytest.raises(ConfigError, match="not used at another endpoint, region"):
                location.open(connection).get("x")
        aws = StoreLocation.of("s3://bucket/table").open(connection)
        with pytest.raises(ConfigError, match="not used at another endpoint, region"):
            aws.get("x")
        assert location_at(meant).open(connection).get("x") == b"x"
    assert (len(meant.requests), other.connections) == (1, 0)


def test_a_redirect_to_another_host_has_no_signature() -> None:
    """Where no proxy stands in between: in pods and on the command line."""
    with SpyServer() as other:
        location = f"Location: {other.url(HERE)}/bucket/table/x"
        with SpyServer(lambda _: answer(b"", location, status="307 Temporary Redirect")) as spy:
            keys = S3Credentials("KEY-ID", "the-secret-key")
            location_at(spy).open(StoreConnection(keys)).get("x")
    assert "KEY-ID" in spy.seen()
    assert other.requests
    assert "KEY-ID" not in other.seen() and "authorization" not in other.seen().lower()


def test_the_identity_of_a_machine_is_fetched_beside_the_proxy(
    proxy: EgressProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's requests reach the store alone, even where the process has the machine's role."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
                 "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_EC2_METADATA_DISABLED"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    roles = "/latest/meta-data/iam/security-credentials/"

    def answering(request: SeenRequest) -> bytes:
        bodies = {"/latest/api/token": "t0ken", roles: "lake", f"{roles}lake": json.dumps(GIVEN)}
        return answer(bodies[request.target].encode())

    with SpyServer(answering) as metadata, SpyServer() as spy:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url(HERE))
        connection = StoreConnection(Keyless.AMBIENT, egress=proxy.of("lake"))
        assert location_at(spy, "store.test").open(connection).get("x") == b"x"
    assert "Credential=MACHINE-ID/" in spy.seen()
    assert [seen_request.method for seen_request in metadata.requests[-3:]] == ["PUT", "GET", "GET"]
    assert metadata.requests[-1].headers["x-aws-ec2-metadata-token"] == "t0ken"


def test_the_identity_of_a_container_is_fetched_with_its_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("the-pod-token\n")
    with SpyServer(lambda _: answer(json.dumps(GIVEN).encode())) as platform:
        environment = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": platform.url(HERE) + "/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
        }
        found = MachineCredentials(environment, metadata_url=None)()
    assert (found["access_key_id"], found["token"]) == ("MACHINE-ID", "the-machine-token")
    assert platform.requests[0].headers["authorization"] == "the-pod-token"
    assert masked("it was the-machine-secret") == "it was ***"
    with pytest.raises(IdentityError, match="gives no credentials"):
        MachineCredentials(environment, metadata_url=None)()


def sts_answer(secret: str = "the-sts-secret") -> bytes:
    fields = {
        "AccessKeyId": "STS-ID",
        "SecretAccessKey": secret,
        "SessionToken": "the-sts-token",
        "Expiration": "2126-01-01T00:00:00Z",
    }
    body = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
    return f'<Answer xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{body}</Answer>'.encode()


def identity_at(url: str, proxy: EgressProxy | None = None) -> WebIdentity:
    egress = None if proxy is None else proxy.of("lake")
    return WebIdentity(url, "arn:aws:iam::1:role/lake", lambda: "the-pod-token", egress=egress)


def test_what_an_sts_gives_is_known_as_secret(proxy: EgressProxy) -> None:
    with SpyServer(lambda _: answer(sts_answer())) as sts:
        found = identity_at(sts.url("sts.test"), proxy)()
    assert found["access_key_id"] == "STS-ID"
    assert b"WebIdentityToken=the-pod-token" in sts.requests[0].body
    assert masked("the-sts-secret the-sts-token the-pod-token") == "*** *** ***"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Other", "308 Moved"])
def test_a_token_follows_no_redirect(status: str) -> None:
    with SpyServer(lambda _: answer(sts_answer())) as other:
        location = f"Location: {other.url('127.0.0.1')}/"
        with (
            SpyServer(lambda _: answer(b"", location, status=status)) as sts,
            pytest.raises(IdentityError, match="refuses the token"),
        ):
            identity_at(sts.url(HERE))()
    assert other.connections == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_token_goes_to_no_address_that_is_refused(scheme: str) -> None:
    with SpyServer() as spy:
        closed = EgressProxy(AddressRules(), resolve=this_machine, limits=PATIENT).start()
        with pytest.raises(IdentityError, match=r"sts\.test resolves to 127\.0\.0\.1, a loopback"):
            identity_at(f"{scheme}://sts.test:{spy.port}", closed)()
        closed.close()
    assert spy.connections == 0


def test_what_an_sts_says_is_shown_only_where_it_is_a_code() -> None:
    words = b'<E xmlns="x"><Code>see http://evil.example the-pod-token</Code></E>'
    with (
        SpyServer(lambda _: answer(words, status="400 Bad Request")) as sts,
        pytest.raises(IdentityError) as caught,
    ):
        identity_at(sts.url(HERE))()
    assert "evil" not in str(caught.value) and "(400)" in str(caught.value)


def test_an_answer_of_an_sts_is_not_read_without_end() -> None:
    padded = sts_answer() + b" " * (8 << 20)
    with SpyServer(lambda _: answer(padded)) as sts:
        found = identity_at(sts.url(HERE))()
    assert found["access_key_id"] == "STS-ID"
    late = b" " * (1 << 20) + sts_answer()
    with (
        SpyServer(lambda _: answer(late)) as sts,
        pytest.raises(IdentityError, match="answers without credentials"),
    ):
        identity_at(sts.url(HERE))()
