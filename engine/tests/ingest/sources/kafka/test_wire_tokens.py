"""Tokens by connections that are given: at a real broker, and of endpoints that lie."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Mechanism, Protocol
from tideline.ingest.sources.kafka.wire import tokens as tokens_module
from tideline.ingest.sources.kafka.wire.tokens import forget_token, token_for
from tideline.secret_values import masked

pytest.importorskip("confluent_kafka")

from tideline.ingest.sources.kafka.wire.look import look_by
from tideline.testing.kafka_broker import KafkaBroker, make_certificate
from tideline.testing.token_server import CLIENT, SECRET, TokenServer, answer_with, token_server

PLAIN = DeclaredKafka(
    brokers="127.0.0.1:1",
    topics=("orders",),
    schema=(),
    protocol=Protocol.SASL_PLAINTEXT,
    mechanism=Mechanism.OAUTHBEARER,
)


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with token_server() as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    tokens_module._kept.clear()


def directly(host: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((host, port), 3.0)
    except OSError as error:
        raise StorageUnavailableError(f"cannot connect: {error.strerror}") from error


def of(server: TokenServer, **more: str) -> Credentials:
    given = {"client_id": CLIENT, "client_secret": SECRET, "token_url": server.url}
    return Credentials(**{**given, **more})


def token(credentials: Credentials, *, within_s: float = 5.0) -> str:
    return token_for(PLAIN, credentials, directly, time.monotonic() + within_s)


@pytest.mark.kafka
def test_a_look_signs_in_with_a_token_of_the_endpoint(
    kafka_broker: KafkaBroker, server: TokenServer
) -> None:
    topic = f"tokens-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    source = replace(PLAIN, brokers=kafka_broker.token_address, topics=(topic,))
    known = of(server, token_scope="read")
    for _ in range(3):
        assert look_by(source, known, directly, None).partitions
    assert server.asked == [{"grant_type": ["client_credentials"], "scope": ["read"]}]
    with pytest.raises(ConfigError, match="KAFKA_TOKEN_URL is not set"):
        look_by(source, replace(known, token_url=""), directly, None)
    with pytest.raises(ConfigError, match="refuses this client: 401 invalid_client") as refused:
        look_by(source, replace(known, client_secret="another-2026"), directly, None)
    assert "another-2026" not in str(refused.value)


@pytest.mark.kafka
def test_a_token_that_brokers_refuse_is_not_shown_again(
    kafka_broker: KafkaBroker, server: TokenServer
) -> None:
    """One that is over, though the endpoint says that it holds; then a good one."""
    topic = f"tokens-{secrets.token_hex(4)}"
    kafka_broker.create_topic(topic)
    source = replace(PLAIN, brokers=kafka_broker.token_address, topics=(topic,))
    server.holds_s = -3600
    over = server.token()
    server.respond = lambda request: answer_with(request, 200, {"access_token": over})
    with pytest.raises(ConfigError, match="the brokers refuse this") as refused:
        look_by(source, of(server), directly, None)
    assert over not in str(refused.value)
    server.respond, server.holds_s = None, 600
    assert look_by(source, of(server), directly, None).partitions
    assert len(server.asked) == 2


@pytest.mark.parametrize("says", [True, False])
def test_a_token_is_asked_for_again_before_it_is_over(server: TokenServer, says: bool) -> None:
    server.holds_s, server.says_how_long = 400, says
    known = of(server)
    first = token(known)
    assert token(known) == first and len(server.asked) == 1
    kept = tokens_module._kept[known]
    assert 200 < kept.kept_until_s - time.monotonic() <= 300
    tokens_module._kept[known] = replace(kept, kept_until_s=time.monotonic())
    token(known)
    assert len(server.asked) == 2
    token(of(server, token_scope="other"))
    forget_token(known)
    token(known)
    assert len(server.asked) == 4
    assert masked(f"refused: {first}") == "refused: ***"


@pytest.mark.parametrize("lasts", [None, 0, -5, "soon", True, float("nan"), 1e400, [], "9" * 50])
def test_what_an_endpoint_says_of_time_is_not_believed(server: TokenServer, lasts: object) -> None:
    content = {"access_token": "opaque", "expires_in": lasts}
    server.respond = lambda request: answer_with(request, 200, content)
    for _ in range(2):
        assert token(of(server)) == "opaque"
    assert len(server.asked) == 2


def test_an_endpoint_behind_tls_has_an_authority_of_its_own(tmp_path: Path) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "key.pem"
    make_certificate("tokens", certificate, key)
    with token_server(certificate, key) as server:
        with pytest.raises(ConfigError, match="TLS fails: certificate verify failed"):
            token(of(server))
        assert server.asked == []
        known = of(server, token_authorities=certificate.read_text())
        assert token(known)
        elsewhere = replace(known, token_url=server.url.replace("127.0.0.1", "localhost"))
        with pytest.raises(ConfigError, match="certificate verify failed"):
            token(elsewhere)
        with pytest.raises(ConfigError, match="KAFKA_TOKEN_CA cannot be read"):
            token(of(server, token_authorities="none"))


def test_the_secret_is_sent_without_tls_only_where_the_source_says_so(server: TokenServer) -> None:
    source = replace(PLAIN, protocol=Protocol.SASL_SSL)
    token(of(server))
    with pytest.raises(ConfigError, match=r"an address without TLS.*SASL_SSL"):
        token_for(source, of(server), directly, time.monotonic() + 5)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "nothing", "http://", "ftp://127.0.0.1/x", "http://127.0.0.1:x/"),
        *("http://user:pw@127.0.0.1/x", "http://[::1", "http://127.0.0.1:0/"),
    ],
)
def test_only_an_address_of_http_is_asked(url: str) -> None:
    def nowhere(host: str, port: int) -> socket.socket:
        raise AssertionError(f"connected to {host}:{port}")

    known = Credentials(client_id="a", client_secret="b", token_url=url)
    with pytest.raises(ConfigError, match="KAFKA_TOKEN_URL is no address"):
        token_for(PLAIN, known, nowhere, time.monotonic() + 1)


def test_no_line_of_the_address_becomes_a_header(server: TokenServer) -> None:
    for path in ("x HTTP/1.1\r\nEvil: 1\r\n", "x y", "\x00", "é"):
        known = of(server, token_url=f"http://127.0.0.1:{server.port}/{path}")
        with pytest.raises(TidelineError):
            token(known)
    assert server.asked == []


def says(
    status: int, body: bytes = b"", **headers: str
) -> Callable[[BaseHTTPRequestHandler], None]:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, text in headers.items():
            request.send_header(name, text)
        request.end_headers()
        request.wfile.write(body)

    return respond


def trickle(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    for _ in range(200):
        request.wfile.write(b" ")
        time.sleep(0.05)


def gives(**content: object) -> Callable[[BaseHTTPRequestHandler], None]:
    return says(200, json.dumps(content).encode())


ELSEWHERE = {"Location": "http://127.0.0.1:1/token"}
LIES = {
    "redirect": (says(302, b"", **ELSEWHERE), ConfigError, r"leads to another address \(302\)"),
    "kept redirect": (
        says(307, b"", **ELSEWHERE),
        ConfigError,
        r"leads to another address \(307\)",
    ),
    "trickle": (trickle, StorageUnavailableError, "does not answer: timed out"),
    "silence": (lambda _: time.sleep(3), StorageUnavailableError, "does not answer: timed out"),
    "overload": (says(503), StorageUnavailableError, "answers 503"),
    "not found": (says(404), ConfigError, "refuses this client: 404"),
    "reason": (
        says(400, b'{"error": "unauthorized_client\\u001b[31m"}'),
        ConfigError,
        r"400 unauthorized_client \[31m",
    ),
    "long": (says(200, b"{" + b" " * 200_000), ConfigError, "is none: an answer that does not end"),
    "cut": (
        says(200, b"{", **{"Content-Length": "99999999"}),
        StorageUnavailableError,
        "the server closed the connection",
    ),
    "page": (says(200, b"<html>"), ConfigError, "its answer is no JSON object"),
    "list": (says(200, b"[]"), ConfigError, "its answer is no JSON object"),
    "empty": (gives(), ConfigError, "it gives no access_token"),
    "spaces": (gives(access_token="a b"), ConfigError, "it gives no access_token"),
    "separators": (gives(access_token="a\x01auth=b"), ConfigError, "it gives no access_token"),
    "kind": (gives(access_token="a", token_type="mac"), ConfigError, "is no Bearer token"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_endpoint_that_lies_costs_a_bounded_time(server: TokenServer, lie: str) -> None:
    server.respond, error, words = LIES[lie]
    began_s = time.monotonic()
    with pytest.raises(TidelineError, match=words) as caught:
        token(of(server), within_s=1.0)
    assert isinstance(caught.value, error)
    assert SECRET not in str(caught.value)
    assert time.monotonic() - began_s < 2.5
    assert len(server.asked) == 1


def test_an_endpoint_that_is_away_or_speaks_otherwise_is_named() -> None:
    known = Credentials(client_id="a", client_secret="b", token_url="http://127.0.0.1:1/token")
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1 does not answer: cannot"):
        token(known)
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"220 mail.example ESMTP\r\n")
        with pytest.raises(ConfigError, match="is none: BadStatusLine"):
            token_for(PLAIN, known, lambda _, __: ours, time.monotonic() + 2)
