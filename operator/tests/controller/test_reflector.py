"""Following objects: what a reflector makes of watches that end, versions that expire, errors."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller import reflector as module
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.reflector import Reflector
from tideline_operator.kube import LAKE_TABLES, Manifest
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.scripted_api import ScriptedServer, refusal


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


class Heard:
    """Names of objects as they come, change and go."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def __call__(self, before: Manifest | None, after: Manifest | None) -> None:
        sign = "+" if before is None else "-" if after is None else "~"
        item = after or before
        assert item is not None
        self.changes.append(sign + item["metadata"]["name"])


def table(name: str, version: int) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": f"{version}"}
    }


def listed(version: int, *items: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return 200, {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def watched(*events: tuple[str, dict[str, Any]], then_s: float = 0.0) -> tuple[int, list[Any]]:
    lines: list[Any] = [{"type": kind, "object": item} for kind, item in events]
    return 200, [*lines, then_s]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILURE_FIRST_S", 0.02)


def follow(server: ScriptedServer, folder: Path) -> tuple[Reflector, ObjectCache, Heard]:
    cache, heard = ObjectCache(), Heard()
    reflector = Reflector(server.api(folder), LAKE_TABLES, cache, heard, SystemClock())
    threading.Thread(target=reflector.run, daemon=True).start()
    return reflector, cache, heard


def test_a_watch_that_ends_goes_on_from_its_last_version(
    server: ScriptedServer, tmp_path: Path
) -> None:
    bookmark = {"metadata": {"resourceVersion": "20"}}
    server.script = [
        listed(5, table("a", 3)),
        watched(("ADDED", table("b", 6)), ("MODIFIED", table("a", 7)), ("BOOKMARK", bookmark)),
        watched(("DELETED", table("a", 21)), then_s=5.0),
    ]
    reflector, cache, heard = follow(server, tmp_path)
    eventually(lambda: "-a" in heard.changes, "the deletion")
    reflector.stop()
    assert heard.changes == ["+a", "+b", "~a", "-a"]
    assert [item["metadata"]["name"] for item in cache.all()] == ["b"]
    paths = [path for _, path, _, _ in server.seen]
    assert ["resourceVersion=5" in paths[1], "resourceVersion=20" in paths[2]] == [True, True]


@pytest.mark.usefixtures("quick")
def test_an_expired_version_means_listing_again_and_missing_nothing(
    server: ScriptedServer, tmp_path: Path
) -> None:
    gone = {"code": 410, "reason": "Expired", "message": "too old"}
    server.script = [
        listed(5, table("a", 3), table("b", 4)),
        (200, [{"type": "ERROR", "object": gone}]),
        listed(90, table("b", 50), table("c", 60)),
        watched(then_s=5.0),
    ]
    reflector, _, heard = follow(server, tmp_path)
    eventually(lambda: "+c" in heard.changes, "the second list")
    reflector.stop()
    assert heard.changes == ["+a", "+b", "-a", "~b", "+c"]


@pytest.mark.usefixtures("quick")
def test_lists_become_rare_where_each_version_expires_at_once(
    server: ScriptedServer, tmp_path: Path
) -> None:
    gone = {"code": 410, "reason": "Expired", "message": "too old"}
    for version in range(30):
        server.script += [listed(version), (200, [{"type": "ERROR", "object": gone}])]
    lists: list[float] = []
    reflector = Reflector(
        server.api(tmp_path),
        LAKE_TABLES,
        ObjectCache(),
        Heard(),
        SystemClock(),
        on_list=lambda: lists.append(time.monotonic()),
    )
    threading.Thread(target=reflector.run, daemon=True).start()
    eventually(lambda: len(lists) == 6, "six lists")
    reflector.stop()
    pauses = [later - earlier for earlier, later in itertools.pairwise(lists)]
    assert pauses[4] > 4 * pauses[0] > 0


@pytest.mark.usefixtures("quick")
def test_a_watch_that_ends_at_once_is_not_repeated_at_once(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHORT_S", 0.3)
    server.script = [listed(5), *(watched() for _ in range(50))]
    reflector, _, _ = follow(server, tmp_path)
    time.sleep(1.5)
    reflector.stop()
    assert 2 <= len(server.seen) <= 8


@pytest.mark.usefixtures("quick")
def test_refusals_and_failures_are_retried_and_do_not_count_as_stuck(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STUCK_S", 1.0)
    server.script = [
        refusal(403, "Forbidden"),
        refusal(500, "InternalError"),
        (200, {"no": "list"}),
        listed(5, table("a", 3)),
        (200, [b"no json\n"]),
        listed(6, table("a", 3)),
        watched(then_s=5.0),
    ]
    reflector, _, heard = follow(server, tmp_path)
    eventually(lambda: len(server.seen) == 7, "all of it")
    assert heard.changes == ["+a"]
    assert reflector.synced.is_set()
    assert not reflector.is_stuck
    assert "interrupted" in reflector.why_not
    time.sleep(1.2)
    # A watch that neither speaks nor ends hangs.
    assert reflector.is_stuck
    reflector.stop()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("may_be_missing", [False, True])
def test_a_kind_that_may_be_missing_has_no_objects_until_it_is_there(
    server: ScriptedServer, tmp_path: Path, may_be_missing: bool
) -> None:
    server.script = [
        refusal(404, "NotFound"),
        refusal(404, "NotFound"),
        listed(5, table("a", 3)),
        watched(then_s=5.0),
    ]
    cache, heard = ObjectCache(), Heard()
    api = server.api(tmp_path)
    reflector = Reflector(
        api, LAKE_TABLES, cache, heard, SystemClock(), may_be_missing=may_be_missing
    )
    threading.Thread(target=reflector.run, daemon=True).start()
    reflector.synced.wait(PATIENCE_S)
    heard_when_synced = len(heard.changes)
    eventually(lambda: heard.changes == ["+a"], "the list")
    reflector.stop()
    assert heard_when_synced == (0 if may_be_missing else 1)
