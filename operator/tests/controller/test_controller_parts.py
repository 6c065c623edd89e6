"""Small parts of the controller: caches, places, pacing, metrics, logs, settings, events."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.operation.result import OperationResult, Outcome, SkippedFile
from tideline.testing.patience import PATIENCE_S
from tideline_operator.controller.health import HttpServer, verdict
from tideline_operator.controller.json_log import JsonLines
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.poll_pacing import IDLE_AFTER_POLLS, PollPacing
from tideline_operator.controller.settings import ControllerSettings
from tideline_operator.controller.table_events import events_of
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus


def thing(name: str, version: int, *, uid: str = "u", table: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "lake",
        "uid": uid,
        "resourceVersion": str(version),
    }
    if table:
        metadata["labels"] = {"table": table}
    return {"metadata": {**metadata, "managedFields": ["long"]}}


def test_a_cache_takes_newer_objects_only() -> None:
    cache = ObjectCache()
    assert cache.put(thing("a", 5)) == (True, None)
    assert cache.put(thing("a", 5))[0] is False
    assert cache.put(thing("a", 4))[0] is False
    assert cache.put(thing("a", 6))[0] is True
    found = cache.get(("lake", "a"))
    assert found is not None and found["metadata"]["resourceVersion"] == "6"
    assert "managedFields" not in found["metadata"]


def test_a_deletion_of_an_older_namesake_is_ignored() -> None:
    cache = ObjectCache()
    cache.put(thing("a", 5, uid="new"))
    assert cache.remove(thing("a", 4, uid="old")) is None
    assert cache.remove(thing("a", 6, uid="new")) is not None
    assert len(cache) == 0


@pytest.mark.parametrize("is_relisted", [False, True])
def test_the_answer_to_a_write_does_not_bring_a_deleted_object_back(is_relisted: bool) -> None:
    cache = ObjectCache()
    cache.put(thing("a", 5))
    if is_relisted:
        cache.replace_all([])
    else:
        cache.remove(thing("a", 7))
    cache.put_written(thing("a", 6))
    assert len(cache) == 0
    cache.put_written(thing("a", 8, uid="made again"))
    assert len(cache) == 1
    cache.remove(thing("a", 9, uid="made again"))
    cache.put(thing("a", 6))
    cache.put_written(thing("a", 7))
    assert [item["metadata"]["resourceVersion"] for item in cache.all()] == ["7"], "it was listed"


def test_a_list_replaces_everything_and_says_what_changed() -> None:
    cache = ObjectCache(label="table")
    cache.put(thing("a", 5, table="t"))
    cache.put(thing("b", 5, table="t"))
    changes = cache.replace_all([thing("b", 5, table="t"), thing("c", 7, table="u")])
    names = [tuple(item and item["metadata"]["name"] for item in change) for change in changes]
    assert names == [("a", None), (None, "c")]
    assert [item["metadata"]["name"] for item in cache.labelled("lake", "t")] == ["b"]
    assert cache.labelled("sea", "t") == ()


def test_few_tables_are_polled_at_their_interval_and_many_idle_ones_less_often() -> None:
    pacing = PollPacing(5.0)
    keys = [("lake", str(number)) for number in range(1000)]
    for key in keys[:100]:
        for _ in range(IDLE_AFTER_POLLS):
            pacing.note_look(key, found_files=False)
        assert pacing.stretched(key, 30.0) == 30.0
    for key in keys[100:]:
        for _ in range(IDLE_AFTER_POLLS):
            pacing.note_look(key, found_files=False)
        pacing.stretched(key, 30.0)
    stretched = [pacing.stretched(key, 30.0) for key in keys]
    assert sum(1 / delay for delay in stretched) == pytest.approx(5.0, rel=0.01)
    pacing.note_look(keys[0], found_files=True)
    assert pacing.stretched(keys[0], 30.0) == 30.0


def test_health_is_served_with_what_is_wrong() -> None:
    problems: list[str] = []
    server = HttpServer(0, {"/healthz": lambda: verdict(problems)}.get)
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE_S) as answer:
            assert answer.status == 200
        problems.append("the watch of pods hangs")
        with pytest.raises(urllib.error.HTTPError) as failed:
            urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE_S)
        with failed.value as answer:
            assert answer.code == 503
            assert b"the watch of pods hangs" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"{url}/nothing", timeout=PATIENCE_S)
        with missing.value as answer:
            assert answer.code == 404
    finally:
        server.stop()


def test_log_lines_are_json_with_table_and_operation() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "did %s", ("it",), None)
    record.table, record.operation = "lake/flights", "flights-ingest-1"
    line = json.loads(JsonLines().format(record))
    assert (line["message"], line["table"]) == ("did it", "lake/flights")
    assert line["operation"] == "flights-ingest-1"
    assert line["level"] == "info"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "TIDELINE_ENGINE_IMAGE is not set"),
        ({"TIDELINE_WORKERS": "many"}, "TIDELINE_WORKERS"),
        ({"TIDELINE_OPERATIONS_MAX": "0"}, "TIDELINE_OPERATIONS_MAX"),
        ({"TIDELINE_MEMORY_MAX": "lots"}, "TIDELINE_MEMORY_MAX"),
        ({"TIDELINE_MEMORY_PER_NAMESPACE_MAX": "lots"}, "TIDELINE_MEMORY_PER_NAMESPACE_MAX"),
        ({"TIDELINE_OPERATION_DEADLINE": "long"}, "TIDELINE_OPERATION_DEADLINE"),
        ({"TIDELINE_RESYNC": "5"}, "TIDELINE_RESYNC"),
        ({"TIDELINE_ENGINE_PULL_POLICY": "Sometimes"}, "TIDELINE_ENGINE_PULL_POLICY"),
        ({"TIDELINE_POD_TEMPLATE": "{"}, "TIDELINE_POD_TEMPLATE: is not JSON"),
        ({"TIDELINE_POD_TEMPLATE": '{"x": 1}'}, "TIDELINE_POD_TEMPLATE.x: a pod template has"),
        ({"TIDELINE_EGRESS_ALLOWED_RANGES": "10.0.0.1/8"}, "TIDELINE_EGRESS_ALLOWED_RANGES: not"),
        ({"TIDELINE_EGRESS_OWN_NAMESPACE_SERVICES": "no"}, "allowed: true, false"),
        ({"TIDELINE_SPARK_CONF": "[]"}, "TIDELINE_SPARK_CONF: must be a JSON object"),
        ({"TIDELINE_SPARK_CONF": '{"spark.x": 1}'}, "spark.x: must be text"),
        ({"TIDELINE_SPARK_CONF": '{"spark.master": "x"}'}, "spark.master cannot be given"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, str], complaint: str) -> None:
    image = {"TIDELINE_ENGINE_IMAGE": "engine:1"} if given else {}
    with pytest.raises(ConfigError, match=complaint):
        ControllerSettings.from_environment({**image, **given})


def test_the_domain_of_services_is_that_of_the_pods_resolver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = tmp_path / "resolv.conf"
    monkeypatch.setattr("tideline_operator.controller.settings._RESOLV_CONF", found)
    for text, domain in (
        (
            "search lake.svc.corp.example svc.corp.example corp.example\nnameserver ::1",
            "corp.example",
        ),
        ("nameserver 10.96.0.10", "cluster.local"),
        (None, "cluster.local"),
    ):
        found.unlink(missing_ok=True)
        if text is not None:
            found.write_text(text)
        settings = ControllerSettings.from_environment({"TIDELINE_ENGINE_IMAGE": "engine:1"})
        assert settings.addresses.cluster_domain == domain


def test_settings_come_from_the_environment() -> None:
    given = {
        "TIDELINE_ENGINE_IMAGE": "engine:1",
        "TIDELINE_NAMESPACES": "lake, sea",
        "TIDELINE_OPERATIONS_MAX": "7",
        "TIDELINE_MEMORY_MAX": "2Gi",
        "TIDELINE_MEMORY_PER_NAMESPACE_MAX": "1Gi",
        "TIDELINE_RESYNC": "10m",
    }
    settings = ControllerSettings.from_environment(given)
    assert settings.namespaces == ("lake", "sea")
    assert settings.limits.operations_max == 7
    assert settings.limits.memory_bytes_max == 2 * 1024**3
    assert settings.limits.memory_bytes_per_namespace_max == 1024**3
    assert settings.resync_s == 600
    assert settings.launch.deadline_s == 24 * 3_600
    assert settings.launch.image == "engine:1"


SKIPPED = SkippedFile("a.csv", "no csv")


def entry(kind: str = "ingest") -> OperationStatus:
    return OperationStatus(
        id="flights-x",
        kind=kind,
        subject="landing" if kind == "ingest" else "",
        phase=OperationPhase.RUNNING,
        started_at=Timestamp(0),
    )


@pytest.mark.parametrize(
    ("kind", "result", "reasons"),
    [
        ("ingest", OperationResult("i", Outcome.SUCCEEDED, instant="2026"), ["Committed"]),
        ("compaction", OperationResult("i", Outcome.SUCCEEDED, instant="2026"), ["ServiceRan"]),
        ("rollback", OperationResult("i", Outcome.SUCCEEDED, rolled_back=("1",)), ["RolledBack"]),
        ("cleaning", OperationResult("i", Outcome.NOTHING), []),
        ("ingest", OperationResult("i", Outcome.FAILED, exit_code=3), ["Conflict"]),
        ("ingest", OperationResult("i", Outcome.FAILED, exit_code=5), ["OutcomeUnknown"]),
        ("ingest", OperationResult("i", Outcome.FAILED, exit_code=1), ["OperationFailed"]),
        (
            "ingest",
            OperationResult("i", Outcome.SUCCEEDED, skipped=(SKIPPED,), rolled_back=("1",)),
            ["Committed", "RolledBack", "Quarantined"],
        ),
    ],
)
def test_events_report_what_an_operation_did(
    kind: str, result: OperationResult, reasons: list[str]
) -> None:
    assert [event.reason for event in events_of(entry(kind), result, LakeTableStatus())] == reasons
