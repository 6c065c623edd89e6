"""The controller's pages: with a token for its holders, without one for the pod itself."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.secret_values import MASK, masked
from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller.cluster_pages import PAGE_HEADERS
from tideline_operator.controller.health import HttpServer
from tideline_operator.controller.page_access import PageAccess

TOKEN = "a-token-of-some-length"
PAGE = "<p>tables of everybody</p>"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture
def now_s() -> list[float]:
    return [0.0]


@pytest.fixture
def server(token_file: Path, now_s: list[float]) -> Iterator[HttpServer]:
    access = PageAccess(token_file, lambda: now_s[0])
    served = HttpServer(0, {"/": lambda: (200, PAGE)}.get, PAGE_HEADERS, access)
    served.start()
    yield served
    served.stop()


def asked(port: int, headers: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), dict(error.headers)


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    "given", [f"Bearer {TOKEN}", f"bearer  {TOKEN} ", basic("me", TOKEN), basic("", TOKEN)]
)
def test_who_has_the_token_sees_the_pages(server: HttpServer, given: str) -> None:
    assert asked(server.port, {"Authorization": given})[:2] == (200, PAGE)


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, f"Digest {TOKEN}",
     basic(TOKEN, ""), basic(TOKEN, "x"), "Basic %%%", "Basic /w==", "Bearer \xe9"],
)  # fmt: skip
def test_nobody_else_does(server: HttpServer, given: str) -> None:
    status, text, headers = asked(server.port, {"Authorization": given} if given else {})
    assert (status, PAGE in text) == (401, False)
    assert headers["WWW-Authenticate"].startswith("Basic ")
    assert headers["Content-Security-Policy"] == PAGE_HEADERS["Content-Security-Policy"]


def test_after_a_wrong_token_nothing_is_looked_at_for_a_second(
    server: HttpServer, now_s: list[float]
) -> None:
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert asked(server.port, {"Authorization": "Bearer wrong"})[0] == 401
    assert asked(server.port, right)[0] == 429
    # The answer to a browser without a token has it ask for one.
    assert asked(server.port, {})[0] == 401
    now_s[0] = 1.5
    assert asked(server.port, right)[0] == 200


def test_another_address_need_not_wait(token_file: Path) -> None:
    access = PageAccess(token_file, lambda: 0.0)
    wrong, right = {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {TOKEN}"}
    assert access.refusal(wrong, "10.0.0.1") is not None
    assert access.refusal(right, "10.0.0.1") is not None
    assert access.refusal(right, "10.0.0.2") is None
    for number in range(2_000):
        access.refusal(wrong, f"10.1.{number // 250}.{number % 250}")
    assert len(access._failed_s) <= 1_000


def test_a_changed_token_counts_at_once(server: HttpServer, token_file: Path) -> None:
    token_file.write_text("another-token-of-some-length")
    assert asked(server.port, {"Authorization": "Bearer another-token-of-some-length"})[0] == 200
    assert asked(server.port, {"Authorization": f"Bearer {TOKEN}"})[0] == 401


@pytest.mark.parametrize("content", ["", "\n", "short", "x" * 15])
def test_a_token_that_can_be_guessed_is_refused(token_file: Path, content: str) -> None:
    token_file.write_text(content)
    with pytest.raises(ConfigError, match="at least 16 characters"):
        PageAccess(token_file, lambda: 0.0)


def test_a_token_that_went_away_opens_nothing(server: HttpServer, token_file: Path) -> None:
    token_file.unlink()
    assert asked(server.port, {"Authorization": f"Bearer {TOKEN}"})[0] == 503
    assert asked(server.port, {"Authorization": "Bearer "})[0] == 401


def test_the_token_is_masked_from_the_start(token_file: Path) -> None:
    PageAccess(token_file, lambda: 0.0)
    assert masked(f"it is {TOKEN}.") == f"it is {MASK}."


@pytest.fixture
def local_server() -> Iterator[HttpServer]:
    access = PageAccess(None, lambda: 0.0)
    served = HttpServer(0, {"/": lambda: (200, PAGE)}.get, PAGE_HEADERS, access)
    served.start()
    yield served
    served.stop()


def test_without_a_token_only_the_loopback_interface_is_served(local_server: HttpServer) -> None:
    assert asked(local_server.port, {})[:2] == (200, PAGE)
    assert asked(local_server.port, {"Host": "localhost:8080"})[0] == 200
    for address in addresses_of_this_machine():
        with pytest.raises(OSError), socket.create_connection((address, local_server.port), 2):
            pass


def addresses_of_this_machine() -> set[str]:
    """IPv4 addresses that are not 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return {"127.0.0.2"}
        return {probe.getsockname()[0], "127.0.0.2"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "10.0.0.1"])
def test_a_name_that_was_made_to_lead_there_reads_nothing(
    local_server: HttpServer, host: str
) -> None:
    status, text, _ = asked(local_server.port, {"Host": host})
    assert (status, PAGE in text) == (403, False)


def test_pages_of_the_operator_run_no_script() -> None:
    policy = PAGE_HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
