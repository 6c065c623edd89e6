"""Session tokens that end in the middle of a long operation, at a server that refuses old ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.remote.streams import PART_BYTES
from tideline.storage.s3.web_identity import WebIdentity
from tideline.testing.patience import PATIENCE_S
from tideline.testing.ruled_s3_server import RuledS3Server, S3Rules
from tideline.testing.token_service import TokenService

FETCH_PAUSE_S = 0.15
"""A little more than what clients leave between two requests for a token."""
SHORT_S = 60.0
"""Less than what clients keep a token for: each request has another one."""


@pytest.fixture
def sts() -> Iterator[TokenService]:
    with TokenService(SHORT_S) as service:
        yield service


@pytest.fixture
def server() -> Iterator[RuledS3Server]:
    with RuledS3Server("lake") as server:
        yield server


@pytest.fixture
def location(
    server: RuledS3Server, sts: TokenService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StoreLocation:
    """With the identity of a pod."""
    token = tmp_path / "token"
    token.write_text("a web identity")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/lake")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", sts.url)
    return StoreLocation.of("s3://lake/table", server.storage_options())


def only_the_newest(server: RuledS3Server, sts: TokenService) -> None:
    """From now on the server takes the token that the STS gives next, and none before it."""
    server.rules = S3Rules(tokens={f"token-{len(sts.given) + later}" for later in range(1, 50)})


def test_an_upload_goes_on_with_the_next_token(
    location: StoreLocation, server: RuledS3Server, sts: TokenService
) -> None:
    store = location.open()
    with store.open_writer("large") as stream:
        for number in range(1, 4):
            stream.write(b"x" * (PART_BYTES + 1))
            wait_for_parts(server, number)
            only_the_newest(server, sts)
    found = server.buckets["lake"].objects["table/large"].body
    assert found == b"x" * (3 * PART_BYTES + 3)
    assert len(set(server.tokens_shown)) > 2
    assert len([*store.list()]) == 1


def wait_for_parts(server: RuledS3Server, count: int) -> None:
    """Until parts have arrived, and a client may fetch a token again."""
    ends_s = time.monotonic() + PATIENCE_S
    while parts_of(server) < count:
        assert time.monotonic() < ends_s, f"{parts_of(server)} parts of {count} are there"
        time.sleep(0.02)
    time.sleep(FETCH_PAUSE_S)


def parts_of(server: RuledS3Server) -> int:
    return sum(len(upload.parts) for upload in [*server.buckets["lake"].uploads.values()])


@pytest.mark.parametrize("is_connected", [False, True], ids=["environment", "connection"])
def test_a_token_that_is_refused_before_its_end_is_not_shown_again(
    location: StoreLocation, server: RuledS3Server, sts: TokenService, is_connected: bool
) -> None:
    sts.lasts_s = 3_600.0
    connection = None
    if is_connected:
        identity = WebIdentity(sts.url, "arn:aws:iam::1:role/lake", lambda: "a web identity")
        connection = StoreConnection(identity)
    store = location.open(connection)
    store.put("x", b"1")
    assert sts.given == ["token-1"]
    server.rules = S3Rules(tokens={"token-2"})
    with pytest.raises(StorageUnavailableError, match="session token has expired") as refused:
        store.put("x", b"2")
    assert "secret-of" not in str(refused.value)
    assert server.buckets["lake"].objects["table/x"].body == b"1"
    store.put("x", b"2")
    assert store.get("x") == b"2"
    assert sts.given == ["token-1", "token-2"]


def test_an_sts_that_is_away_is_not_needed_while_a_token_lasts(
    location: StoreLocation, sts: TokenService
) -> None:
    store: ObjectStore = location.open()
    store.put("x", b"1")
    sts.is_down = True
    asked = sts.asked
    for number in range(20):
        store.put("x", str(number).encode())
    assert store.get("x") == b"19"
    assert sts.asked <= asked + 2, "one that is away is left alone for a while"
    sts.is_down = False


def test_an_sts_that_is_away_is_named_when_the_token_has_ended(
    location: StoreLocation, sts: TokenService
) -> None:
    sts.lasts_s = 0.0
    store = location.open()
    store.put("x", b"1")
    sts.is_down = True
    with pytest.raises(StorageUnavailableError, match="cannot answer now"):
        store.put("x", b"2")
