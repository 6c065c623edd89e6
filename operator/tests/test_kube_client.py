"""The API client against a server that answers by a script: what callers may rely on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.kube import (
    JOBS,
    LAKE_TABLES,
    ApiRefusedError,
    ApiUnavailableError,
    Exists,
    ExpiredError,
    KubeApi,
    Stale,
    WatchKind,
)
from tideline_operator.testing.scripted_api import ScriptedServer, refusal


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


@pytest.fixture
def api(server: ScriptedServer, tmp_path: Path) -> KubeApi:
    return server.api(tmp_path)


def test_a_list_is_read_page_by_page_and_its_items_say_what_they_are(
    server: ScriptedServer, api: KubeApi
) -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"n": 1}]}
    last = {"metadata": {"resourceVersion": "7"}, "items": [{"n": 2}]}
    server.script = [(200, first), (200, last)]
    items, version = api.list(LAKE_TABLES, labels="a=b", limit=1)
    assert [item["n"] for item in items] == [1, 2]
    assert {item["kind"] for item in items} == {"LakeTable"}
    assert version == "7"
    paths = [path for _, path, _, _ in server.seen]
    assert paths[0] == "/apis/tideline.dev/v1alpha1/laketables?limit=1&labelSelector=a%3Db"
    assert paths[1].endswith("continue=more")
    assert server.seen[0][2]["authorization"] == "Bearer secret-token"


def test_what_does_not_exist_is_none(server: ScriptedServer, api: KubeApi) -> None:
    server.script = [refusal(404, "NotFound")]
    assert api.get(JOBS, "j", "n") is None
    assert server.seen[0][1] == "/apis/batch/v1/namespaces/n/jobs/j"


def test_creating_what_exists_is_an_answer_and_a_race_is_worth_a_retry(
    server: ScriptedServer, api: KubeApi
) -> None:
    job = {"metadata": {"name": "j"}}
    server.script = [
        refusal(409, "AlreadyExists"),
        refusal(409, "Conflict"),
        refusal(403, "Forbidden"),
    ]
    assert api.create(JOBS, job, "n") == Exists()
    with pytest.raises(ApiUnavailableError):
        api.create(JOBS, job, "n")
    with pytest.raises(ApiRefusedError, match="from the server") as refused:
        api.create(JOBS, job, "n")
    assert json.loads(server.seen[0][3]) == job
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_a_replacement_that_lost_the_race_is_stale(server: ScriptedServer, api: KubeApi) -> None:
    server.script = [refusal(409, "Conflict"), refusal(404, "NotFound")]
    table = {"metadata": {"name": "t", "resourceVersion": "1"}}
    assert api.replace(LAKE_TABLES, table, "n", subresource="status") == Stale()
    assert api.replace(LAKE_TABLES, table, "n") == Stale()
    assert server.seen[0][1].startswith(
        "/apis/tideline.dev/v1alpha1/namespaces/n/laketables/t/status"
    )


def test_apply_sends_the_manifest_once_serialised(server: ScriptedServer, api: KubeApi) -> None:
    server.script = [(200, {"metadata": {"name": "t"}})]
    manifest = {"metadata": {"name": "t"}, "status": {"text": "ü"}}
    api.apply(LAKE_TABLES, manifest, "n", subresource="status")
    method, path, headers, body = server.seen[0]
    assert method == "PATCH"
    assert "fieldManager=tideline-operator" in path and "force=true" in path
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(body) == manifest


@pytest.mark.parametrize("code", [401, 429, 500, 503, 504])
def test_a_busy_server_is_unavailable(server: ScriptedServer, api: KubeApi, code: int) -> None:
    server.script = [refusal(code, "Busy")]
    with pytest.raises(ApiUnavailableError) as failed:
        api.get(JOBS, "j", "n")
    assert failed.value.retry_after_s == (7.0 if code == 429 else None)


def test_a_server_that_is_gone_is_unavailable_and_every_request_is_counted(
    server: ScriptedServer, api: KubeApi
) -> None:
    counted: list[tuple[str, str, int]] = []
    api.on_request = lambda *request: counted.append(request)
    server.script = [(200, {"metadata": {}})]
    api.get(JOBS, "j", "n")
    server.stop()
    api.close()
    with pytest.raises(ApiUnavailableError):
        api.create(JOBS, {"metadata": {"name": "j"}}, "n")
    assert counted == [("get", "jobs", 200), ("create", "jobs", 0)]


def test_a_watch_reports_changes_as_they_happen_even_cut_apart(
    server: ScriptedServer, api: KubeApi
) -> None:
    added = json.dumps({"type": "ADDED", "object": {"n": 1}}).encode()
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    server.script = [(200, [added[:10], added[10:] + b"\n", bookmark, 1.0])]
    started = time.monotonic()
    events = api.watch(LAKE_TABLES, "5", timeout_s=30)
    kinds = [next(events).kind, next(events).kind]
    assert time.monotonic() - started < 0.9
    assert kinds == [WatchKind.ADDED, WatchKind.BOOKMARK]
    assert next(events, None) is None
    assert "resourceVersion=5" in server.seen[0][1]
    assert "allowWatchBookmarks=true" in server.seen[0][1]


def test_a_version_too_old_to_watch_from_is_expired(server: ScriptedServer, api: KubeApi) -> None:
    gone = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    server.script = [(200, [gone]), refusal(410, "Expired")]
    for _ in range(2):
        with pytest.raises(ExpiredError):
            list(api.watch(LAKE_TABLES, "1", timeout_s=5))


def test_a_silent_watch_is_given_up(
    server: ScriptedServer, api: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.kube._WATCH_GRACE_S", -0.5)
    server.script = [(200, [3.0])]
    started = time.monotonic()
    with pytest.raises(ApiUnavailableError):
        list(api.watch(LAKE_TABLES, "1", timeout_s=1))
    assert time.monotonic() - started < 2.5


def test_deleting_says_whether_there_was_something(server: ScriptedServer, api: KubeApi) -> None:
    server.script = [(200, {}), refusal(404, "NotFound"), refusal(409, "Conflict")]
    assert api.delete(JOBS, "j", "n")
    assert not api.delete(JOBS, "j", "n")
    assert not api.delete(JOBS, "j", "n", uid="other")
    assert json.loads(server.seen[2][3])["preconditions"] == {"uid": "other"}
