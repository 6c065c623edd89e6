"""`kubectl tideline` on a real API server, with a controller that works there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline_operator.plugin.driver_logs import NoPodError
from tideline_operator.plugin.main import plugin
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.scripted_api import ScriptedServer
from tideline_operator.testing.simulated_cluster import CarryingOut


class Kubectl:
    """The plugin with the options that kubectl's user would give."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.given = ["--kubeconfig", str(server.kubeconfig), "-n", namespace]

    def __call__(self, *arguments: str) -> int:
        code = plugin.main([*arguments, *self.given], standalone_mode=False)
        return int(code or 0)


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


@pytest.fixture
def kubectl(api_server: ApiServer, namespace: str) -> Kubectl:
    return Kubectl(api_server, namespace)


@pytest.mark.api_server
def test_a_table_is_followed_from_why_to_status(
    case: ControllerCase, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    case.declare()
    assert kubectl("why", "people") == 1
    assert "the operator has not seen the newest spec" in capsys.readouterr().out
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    assert kubectl("why", "people") == 0
    assert capsys.readouterr().out == f"nothing is wrong with {case.namespace}/people\n"
    assert kubectl("status", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["ready"], row["namespace"]) == ("people", "True", case.namespace)
    assert kubectl("status", "people") == 0
    assert "people" in capsys.readouterr().out
    assert kubectl("plan", "people", "--json") == 0
    due = {row["what"]: row["due"] for row in json.loads(capsys.readouterr().out)}
    assert due["cleaning"] is False


@pytest.mark.api_server
def test_run_waits_for_its_own_operation(
    case: ControllerCase, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    case.declare()
    case.land("a.parquet")
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        assert kubectl("run", "people", "cleaning", "--wait", "--timeout", "60") == 0
    asked, ended = capsys.readouterr().out.splitlines()
    assert asked == "asked for run 1 of cleaning"
    assert ended.startswith("Succeeded")
    assert kubectl("run", "people", "cleaning") == 0
    assert case.table()["spec"]["rerun"] == {"cleaning": 2}


@pytest.mark.api_server
def test_a_table_is_suspended_fenced_and_resumed(
    case: ControllerCase, kubectl: Kubectl, capsys: pytest.CaptureFixture[str]
) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        assert kubectl("suspend", "people") == 0
        case.until(lambda: case.condition("Paused").get("status") == "True", "it is paused")
        capsys.readouterr()
        assert kubectl("status") == 0
        assert "the table is paused" in capsys.readouterr().out
        assert kubectl("fence", "people") == 0
        assert kubectl("resume", "people") == 0
        case.until_ready()
        assert not {"suspend", "fenced"} & {
            name for name, value in case.table()["spec"].items() if value
        }
        assert kubectl("fence", "people", "--json") == 0
        case.until(lambda: case.condition("Ingesting").get("reason") == "Fenced", "it is fenced")


@pytest.mark.api_server
def test_what_is_not_there_is_named(case: ControllerCase, kubectl: Kubectl) -> None:
    case.declare()
    command = [sys.executable, "-m", "tideline_operator.plugin.main"]
    for arguments, words in (
        (["why", "peopel"], "there is no LakeTable of that name"),
        (["run", "people", "cleaning"], "has no such service or ingest"),
        (["logs", "people"], "has no such operation"),
        (["status", "--context", "moon"], "no such context"),
    ):
        given = kubectl.given if "--context" not in arguments else kubectl.given[:2]
        run = subprocess.run(
            [*command, *arguments, *given],
            capture_output=True, text=True, env=dict(os.environ),
        )  # fmt: skip
        assert run.returncode == 2, run.stderr
        assert words in run.stderr


def test_a_log_is_that_of_the_newest_driver(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table: dict[str, Any] = {
        "metadata": {"name": "orders", "namespace": "lake"},
        "status": {"operations": [{"id": "b", "kind": "cleaning", "phase": "Running"}]},
    }
    pods = [
        {"metadata": {"name": name, "creationTimestamp": at}}
        for name, at in (("b-1", "2026-11-25T01:00:00Z"), ("b-2", "2026-11-25T02:00:00Z"))
    ]
    server = ScriptedServer()
    server.api(tmp_path)
    given = ["logs", "orders", "-n", "lake", "-f", "--kubeconfig", str(tmp_path / "kubeconfig")]
    listing = {"metadata": {"resourceVersion": "1"}, "items": pods}
    try:
        server.script += [(200, table), (200, listing), (200, [b"first\nsec", b"ond\nlast"])]
        assert not plugin.main(given, standalone_mode=False)
        assert capsys.readouterr().out.splitlines() == ["first", "second", "last"]
        _, listed, log = (path for _, path, _, _ in server.seen)
        assert "labelSelector=tideline.dev%2Foperation%3Db" in listed
        assert log == "/api/v1/namespaces/lake/pods/b-2/log?follow=true"
        gone = {"metadata": {"resourceVersion": "1"}, "items": []}
        server.script += [(200, table), (200, gone)]
        with pytest.raises(NoPodError, match="operation b has no pod"):
            plugin.main(given, standalone_mode=False)
    finally:
        server.stop()


def test_the_log_of_what_a_warm_worker_did_is_the_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operation = {"id": "b", "kind": "cleaning", "phase": "Succeeded", "worker": "tideline-worker-1"}
    table: dict[str, Any] = {
        "metadata": {"name": "orders", "namespace": "lake"},
        "status": {"operations": [operation]},
    }
    pods = [{"metadata": {"name": "w", "creationTimestamp": "2026-11-25T01:00:00Z"}}]
    listing = {"metadata": {"resourceVersion": "1"}, "items": pods}
    server = ScriptedServer()
    server.api(tmp_path)
    given = ["logs", "orders", "-n", "lake", "--kubeconfig", str(tmp_path / "kubeconfig")]
    try:
        server.script += [(200, table), (200, listing), (200, [b"begins b of orders\n"])]
        assert not plugin.main(given, standalone_mode=False)
    finally:
        server.stop()
    assert capsys.readouterr().out.splitlines() == ["begins b of orders"]
    assert "labelSelector=batch.kubernetes.io%2Fjob-name%3Dtideline-worker-1" in server.seen[1][1]
