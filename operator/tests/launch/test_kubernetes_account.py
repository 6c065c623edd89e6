"""How a pod talks to the API server: over connections that are kept."""

from __future__ import annotations

import os
import urllib.error
from pathlib import Path
from typing import cast

import pytest
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from tideline.ingest.executors import kubernetes_account
from tideline.ingest.executors.kubernetes_account import MERGE_PATCH, KubernetesAccount
from tideline_operator.testing.api_server import ADMIN, ApiServer

pytestmark = pytest.mark.api_server


@pytest.fixture
def account(api_server: ApiServer, tmp_path: Path) -> KubernetesAccount:
    token, authorities = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text(api_server.token_of(ADMIN))
    authorities.write_bytes(api_server.authority.read_bytes())
    return KubernetesAccount(token, authorities)


def pool(account: KubernetesAccount, url: str) -> HTTPConnectionPool:
    changed_ns = account.authorities.stat().st_mtime_ns
    kept = kubernetes_account._connections(str(account.authorities), changed_ns)
    return kept.connection_from_url(url)


def test_requests_after_each_other_share_a_connection(
    api_server: ApiServer, namespace: str, account: KubernetesAccount
) -> None:
    url = f"{api_server.url}/api/v1/namespaces/{namespace}/configmaps"
    content = {"metadata": {"name": "a", "labels": {"of": "me"}}, "data": {"k": "v"}}
    account.call("POST", url, content, timeout_s=10)
    with pytest.raises(urllib.error.HTTPError) as refused:
        account.call("POST", url, content, timeout_s=10)
    with refused.value as error:
        assert (error.code, b"already exists" in error.read()) == (409, True)
    change = {"data": {"k": "w"}}
    changed = account.call("PATCH", f"{url}/a", change, content_type=MERGE_PATCH, timeout_s=10)
    assert changed["data"] == {"k": "w"}
    assert len(account.call("GET", url, timeout_s=10)["items"]) >= 1
    assert pool(account, url).num_connections == 1
    seen = []
    for event in account.watch(url, {"labelSelector": "of=me"}, timeout_s=20):
        seen.append((event["type"], event["object"]["metadata"]["name"]))
        if len(seen) == 2:
            break
        account.call("DELETE", f"{url}/a", timeout_s=10)
    assert seen == [("ADDED", "a"), ("DELETED", "a")]
    assert pool(account, url).num_connections == 2


def test_a_connection_that_the_server_has_closed_is_made_again(
    api_server: ApiServer, account: KubernetesAccount
) -> None:
    url = f"{api_server.url}/version"
    account.call("GET", url, timeout_s=10)
    kept = pool(account, url)
    connection = cast(HTTPConnection, kept._get_conn())
    assert connection.sock is not None
    connection.sock.shutdown(2)
    kept._put_conn(connection)
    assert account.call("GET", url, timeout_s=10)["major"] == "1"


def test_other_authorities_are_read_and_what_they_do_not_vouch_for_is_no_answer(
    api_server: ApiServer, account: KubernetesAccount
) -> None:
    url = f"{api_server.url}/version"
    account.call("GET", url, timeout_s=10)
    authorities = account.authorities.read_bytes()
    account.authorities.write_bytes(b"")
    os.utime(account.authorities, ns=(1, 1))
    with pytest.raises(OSError):
        account.call("GET", url, timeout_s=10)
    account.authorities.write_bytes(authorities)
    os.utime(account.authorities, ns=(2, 2))
    account.call("GET", url, timeout_s=10)
    with pytest.raises(OSError, match="no answer from"):
        account.call("GET", "https://127.0.0.1:1/version", timeout_s=10)
