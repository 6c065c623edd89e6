"""A real API server that has forgotten a resource version: everything is listed again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline_operator.api_objects import SECRETS, ExpiredError, Manifest
from tideline_operator.controller import reflector as module
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.reflector import Reflector
from tideline_operator.kube import KubeApi
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.eventually import eventually

FORGOTTEN = "1"
"""Before anything that the watch cache of a server holds that was started later."""

pytestmark = [pytest.mark.api_server, pytest.mark.slow]


class OldOnce:
    """The API, whose first list seems to have been long ago."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.lists = 0

    def list(self, *arguments: Any, **options: Any) -> tuple[list[Manifest], str]:
        items, version = self._api.list(*arguments, **options)
        self.lists += 1
        return items, FORGOTTEN if self.lists == 1 else version

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server of the test's own, started again since the first object was made."""
    with ApiServer() as server:
        make_secret(server, "before")
        server.restart()
        yield server


def test_a_forgotten_version_is_gone_and_changes_are_heard_after_another_list(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FAILURE_FIRST_S", 0.02)
    api = server.api()
    with pytest.raises(ExpiredError):
        list(api.watch(SECRETS, FORGOTTEN, "default", timeout_s=5))
    heard: list[str] = []
    old: Any = OldOnce(api)

    def note(_: Manifest | None, after: Manifest | None) -> None:
        heard.append(after["metadata"]["name"] if after else "")

    reflector = Reflector(old, SECRETS, ObjectCache(), note, SystemClock(), namespace="default")
    threading.Thread(target=reflector.run, daemon=True).start()
    eventually(lambda: old.lists == 2, "a second list")
    make_secret(server, "after")
    eventually(lambda: heard.count("after") == 1, "the change")
    reflector.stop()
    assert heard.count("before") == 1
    assert old.lists == 2


def make_secret(server: ApiServer, name: str) -> None:
    path = "/api/v1/namespaces/default/secrets"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    answer = server.request("POST", path, secret)
    assert answer.status in (201, 409), answer.message
