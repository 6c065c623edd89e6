"""A controller that dies at any of its writes: the next one carries on, with one Job per operation.

Dying is cutting the controller off from the API server for good, just before a write arrives or
just after. What it knew is lost with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline_operator.api_objects import LAKE_TABLES, ApiUnavailableError
from tideline_operator.controller.controller import Controller
from tideline_operator.kube import KubeApi
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase, controller_settings

pytestmark = pytest.mark.api_server

READS = ("get", "list", "watch")


class MortalApi(KubeApi):
    """Works until its `writes`-th write: that one arrives or not, and nothing works afterwards."""

    writes_left: int | None = None
    last_arrives = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.died = threading.Event()
        self._counting = threading.Lock()

    def _send(self, verb: str, *arguments: Any, **options: Any) -> Any:
        if self.died.is_set():
            raise ApiUnavailableError("cut off")
        if verb in READS or self.writes_left is None:
            return super()._send(verb, *arguments, **options)
        with self._counting:
            self.writes_left -= 1
            is_last = self.writes_left == 0
            if is_last and not self.last_arrives:
                self.died.set()
                raise ApiUnavailableError("cut off before the write")
            answer = super()._send(verb, *arguments, **options)
            if is_last:
                self.died.set()
                raise ApiUnavailableError("cut off after the write")
            return answer


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def start_mortal(
    case: ControllerCase, api_server: ApiServer, writes: int, *, last_arrives: bool
) -> tuple[Controller, MortalApi]:
    api = MortalApi.from_environment(api_server.kubeconfig)
    assert isinstance(api, MortalApi)
    api.writes_left, api.last_arrives = writes, last_arrives
    controller = Controller(api, controller_settings(case.namespace), allows_local=True)
    assert controller.start(timeout_s=30.0)
    return controller, api


def replace_dead(case: ControllerCase, mortal: Controller, api: MortalApi) -> None:
    """Let it die, at the latest now: the last deaths of a series may not happen."""
    api.died.wait(2.0)
    api.died.set()
    mortal.stop(5.0)
    case.start()


def jobs_per_operation(case: ControllerCase) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in case.cluster.all_jobs():
        name = job["metadata"]["labels"]["tideline.dev/operation"]
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize("last_arrives", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(1, 9))
def test_a_death_at_any_write_of_a_start_leaves_one_job(
    case: ControllerCase, api_server: ApiServer, writes: int, last_arrives: bool
) -> None:
    case.declare(deletionPolicy="Delete")
    mortal, api = start_mortal(case, api_server, writes, last_arrives=last_arrives)
    replace_dead(case, mortal, api)
    job = case.until_job("create")
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "the Job was seen")
    case.cluster.carry_out(job)
    case.until_ready()
    assert set(jobs_per_operation(case).values()) == {1}
    case.api.patch(LAKE_TABLES, "people", {"metadata": {"finalizers": None}}, case.namespace)


@pytest.mark.parametrize("last_arrives", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(1, 6))
def test_a_death_at_any_write_after_an_end_loses_no_result(
    case: ControllerCase, api_server: ApiServer, writes: int, last_arrives: bool
) -> None:
    case.land("a.parquet")
    case.declare()
    case.start()
    case.cluster.carry_out(case.until_job("create"))
    ingest = case.until_job("ingest")
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "the Job was seen")
    case.stop()
    case.cluster.carry_out(ingest)
    case.land("b.parquet")
    mortal, api = start_mortal(case, api_server, writes, last_arrives=last_arrives)
    replace_dead(case, mortal, api)
    following = case.until_job("ingest")
    case.cluster.carry_out(following)
    case.until(lambda: case.status().get("timeline", {}).get("completed") == 2, "two commits")
    case.until(
        lambda: [item["phase"] for item in case.operations()] == ["Succeeded"] * 3, "all succeeded"
    )
    assert set(jobs_per_operation(case).values()) == {1}
    case.until(lambda: case.event_reasons().count("Committed") == 2, "each is reported once")
