"""Requests to Glue: signed as AWS's own client signs them, tried again where that is safe, and
nothing of an answer trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tideline.errors import ConfigError, CorruptTableError, StorageUnavailableError, TidelineError
from tideline.glue.address import GlueAddress
from tideline.glue.client import GlueClient, Refusal, Refused
from tideline.glue.keys import RenewedKeys, keys_of_process
from tideline.glue.signature import signed_headers
from tideline.storage.s3.client import S3Credentials
from tideline.testing.fake_clock import FakeClock
from tideline.testing.glue_server import GlueFaultError, GlueRequest, GlueServer, LostAnswerError
from tideline.testing.library_apart import BOTO3, import_from, prepare_library
from tideline.testing.spy_server import SpyServer, answer

KEYS = S3Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "of-this-session")
READ, CHANGE = "GetDatabases", "CreateDatabase"
GIVEN: dict[str, dict[str, Any]] = {READ: {}, CHANGE: {"DatabaseInput": {"Name": "db"}}}


@pytest.fixture
def server() -> Iterator[GlueServer]:
    with GlueServer(page=2) as server:
        yield server


def client(url: str, **given: Any) -> GlueClient:
    address = GlueAddress("eu-central-1", url, given.pop("account", None))
    keys = given.pop("keys", lambda: KEYS)
    return GlueClient(address, keys, clock=FakeClock(), timeout_s=5, **given)


def times(count: int, error: Exception) -> Callable[[GlueRequest], None]:
    """Raises it so many times."""
    left = [error] * count

    def raises(_: GlueRequest) -> None:
        if left:
            raise left.pop()

    return raises


def test_a_request_is_signed_as_boto_signs_it() -> None:
    import_from(prepare_library(BOTO3), "boto3")
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    for url in ("https://glue.eu-central-1.amazonaws.com", "http://[::1]:5000/a/b", "http://h/"):
        for keys in (KEYS, S3Credentials("k", "s")):
            headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AWSGlue.X"}
            body = json.dumps({"Name": "ü"}).encode()
            request = AWSRequest("POST", url, data=body, headers=headers)
            signer = SigV4Auth(
                Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token),
                "glue",
                "eu-central-1",
            )
            signer.add_auth(request)
            at = datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
            ours = signed_headers(
                url, headers, body, keys, region="eu-central-1", service="glue",
                now_s=at.replace(tzinfo=UTC).timestamp(),
            )  # fmt: skip
            assert ours["Authorization"] == request.headers["Authorization"]


def test_what_had_no_time_is_tried_again_and_a_lost_change_is_not(server: GlueServer) -> None:
    for action in (READ, CHANGE):
        server.before = times(3, GlueFaultError("ThrottlingException", "Rate exceeded"))
        assert isinstance(client(server.url).call(action, GIVEN[action]), dict)
        assert server.count(action) == 4
        server.before = times(99, GlueFaultError("ThrottlingException", "Rate exceeded"))
        refused = client(server.url).call(action, GIVEN[action])
        assert isinstance(refused, Refused)
        assert refused.reason is Refusal.BUSY
        assert "did not take place: ThrottlingException: Rate exceeded" in str(refused.error())
    for lost in (LostAnswerError(), GlueFaultError("InternalServiceException", status=500)):
        server.received.clear()
        server.before = lambda _: None
        server.databases.clear()
        server.after = times(2, lost)
        assert isinstance(client(server.url).call(READ, {}), dict)
        assert server.count(READ) == 3
        server.after = times(1, lost)
        with pytest.raises(StorageUnavailableError, match="does not answer"):
            client(server.url).call(CHANGE, GIVEN[CHANGE])
        assert server.count(CHANGE) == 1
        assert "db" in server.databases


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("EntityNotFoundException", Refusal.MISSING),
        ("com.amazonaws.glue#AlreadyExistsException", Refusal.EXISTS),
        ("ConcurrentModificationException", Refusal.CHANGED),
        ("AccessDeniedException", Refusal.DENIED),
        ("UnrecognizedClientException", Refusal.DENIED),
        ("InvalidSignatureException", Refusal.DENIED),
        ("ExpiredTokenException", Refusal.DENIED),
        ("InvalidInputException", Refusal.INVALID),
        ("ResourceNumberLimitExceededException", Refusal.INVALID),
    ],
)
def test_a_refusal_is_what_its_code_says(server: GlueServer, code: str, reason: Refusal) -> None:
    server.before = times(1, GlueFaultError(code, "said \x1b[31mso"))
    refused = client(server.url).call(CHANGE, GIVEN[CHANGE])
    assert isinstance(refused, Refused)
    assert refused.reason is reason
    assert "\x1b" not in str(refused.error(table="db.t"))
    assert len(server.received) == 1


def test_credentials_that_have_ended_are_fetched_once_more(server: GlueServer) -> None:
    fetched: list[int] = []

    def fetch() -> dict[str, object]:
        fetched.append(len(fetched))
        ends = datetime.now(UTC) + timedelta(seconds=3600)
        return {"access_key_id": f"key-{len(fetched)}", "secret_access_key": "x" * 20,
                "token": None, "expires_at": ends}  # fmt: skip

    server.before = times(1, GlueFaultError("ExpiredTokenException"))
    asking = client(server.url, keys=RenewedKeys(fetch))
    assert isinstance(asking.call(CHANGE, GIVEN[CHANGE]), dict)
    asking.call(READ, {})
    used = [request.headers["authorization"].split("Credential=")[1][:5] for request in
            server.received]  # fmt: skip
    assert used == ["key-1", "key-2", "key-2"]
    server.before = times(99, GlueFaultError("ExpiredTokenException"))
    assert isinstance(asking.call(READ, {}), Refused)
    assert len(fetched) == 3


def test_listings_have_pages_and_an_end(server: GlueServer) -> None:
    for number in range(5):
        client(server.url).call(CHANGE, {"DatabaseInput": {"Name": f"db{number}"}})
    pages = list(client(server.url, account="123").pages(READ, {}, "DatabaseList"))
    assert [len(page) for page in pages if isinstance(page, list)] == [2, 2, 1]
    assert server.received[-1].content == {"CatalogId": "123", "NextToken": "4"}
    for body in (b'{"DatabaseList": [], "NextToken": "same"}', b'{"DatabaseList": "x"}', b"[]"):
        with (
            SpyServer(lambda _, body=body: answer(body)) as spy,  # type: ignore[misc]
            pytest.raises(CorruptTableError, match="Glue"),
        ):
            list(client(spy.url("127.0.0.1")).pages(READ, {}, "DatabaseList"))


def test_an_answer_leads_nowhere_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_METADATA_BYTES_MAX", "64Ki")
    with SpyServer() as elsewhere, SpyServer(
        lambda _: answer(b"", f"Location: {elsewhere.url('127.0.0.1')}", status="302 Found")
    ) as spy:  # fmt: skip
        with pytest.raises(StorageUnavailableError, match="HTTP 302"):
            client(spy.url("127.0.0.1")).call(CHANGE, GIVEN[CHANGE])
        assert elsewhere.connections == 0
    for body in (b"{" + b" " * 70_000, b'{"a":' * 400, b"\xff", b'{"a": "\\ud800"}'):
        with SpyServer(lambda _, body=body: answer(body)) as spy, pytest.raises(TidelineError):  # type: ignore[misc]
            client(spy.url("127.0.0.1")).call(CHANGE, GIVEN[CHANGE])


def test_an_address_is_what_configuration_says() -> None:
    amazons = "https://glue.eu-west-1.amazonaws.com"
    assert GlueAddress.of({"uri": amazons}) == GlueAddress("eu-west-1", amazons)
    assert GlueAddress.of({"glue.region": "eu-west-1"}).url == amazons
    environment = {"AWS_REGION": "cn-north-1", "AWS_ENDPOINT_URL": "http://minio:9000"}
    found = GlueAddress.of({"client.region": "", "glue.id": "123"}, environment)
    assert str(found) == "https://glue.cn-north-1.amazonaws.com.cn (123)"
    for given in (
        {},
        {"glue.region": "eu-west-1.evil.example/#"},
        {"glue.region": "x"},
        {"uri": "http://user:password@host", "glue.region": "eu-west-1"},
        {"uri": "https://glue.eu-west-1.amazonaws.com.evil.example"},
        {"glue.region": "eu-west-1", "glue.id": "1\n2"},
    ):
        with pytest.raises(ConfigError) as refused:
            GlueAddress.of(given)
        assert "password" not in str(refused.value)


def test_credentials_are_the_catalogs_or_the_processs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match="no S3 credentials"):
        keys_of_process({}, "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-process")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-process")
    assert keys_of_process({}, "eu-west-1")().access_key_id == "of-the-process"
    pair = {"access-key-id": "own", "secret-access-key": "secret-of-its-own"}
    for family in ("glue", "client"):
        given = {f"{family}.{name}": text for name, text in pair.items()}
        assert keys_of_process(given, "eu-west-1")().access_key_id == "own"
    with pytest.raises(ConfigError, match="come together"):
        keys_of_process({"glue.access-key-id": "own"}, "eu-west-1")
