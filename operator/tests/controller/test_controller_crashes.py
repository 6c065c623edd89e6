"""A controller that dies at any of its writes: the next one carries on, with one Job per operation.

Dying is cutting the controller off from the API server for good, just before a write arrives or
just after. What it knew is lost with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.api_objects import CONFIG_MAPS, LAKE_TABLES
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.mortal_api import replace_dead, start_mortal
from tideline_operator.testing.simulated_cluster import operation_map_of

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def jobs_per_operation(case: ControllerCase) -> dict[str, int]:
    found: dict[str, int] = {}
    for job in case.cluster.all_jobs():
        name = job["metadata"]["labels"]["tideline.dev/operation"]
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.slow_with(
    "1-after", "2-after", "3-after", "4-after", "5-after", "6-after", "7-after", "8-after"
)
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


def test_a_job_whose_pod_waits_for_its_config_map_gets_it_from_the_next_controller(
    case: ControllerCase,
) -> None:
    case.declare()
    case.start()
    job = case.until_job("create")
    name = job["metadata"]["name"]
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "the Job was seen")
    case.stop()
    # As after a death between Job and ConfigMap, with a pod that waits for the latter.
    entry = {**case.operations()[-1], "phase": "Pending"}
    change = {"status": {"operations": [entry]}}
    case.api.patch(LAKE_TABLES, "people", change, case.namespace, subresource="status")
    case.api.delete(CONFIG_MAPS, operation_map_of(job), case.namespace)
    creating = {"waiting": {"reason": "ContainerCreating"}}
    case.cluster.start_pod(job, phase="Pending", state=creating)
    case.start()
    assert case.until_job("create")["metadata"]["name"] == name
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "it was started once more")


@pytest.mark.slow_with("1-after", "2-after", "3-after", "4-after", "5-after")
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
