"""Operations of one table continue at the same time, each with a Job and a place of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline_operator.api_objects import Manifest
from tideline_operator.controller.budgets import Limits
from tideline_operator.controller.controller import Controller
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.simulated_cluster import CarryingOut

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def phases(case: ControllerCase) -> dict[str, str]:
    return {operation["kind"]: operation["phase"] for operation in case.operations()}


def cleaning_under_way(case: ControllerCase, **options: Any) -> tuple[Controller, Manifest]:
    """A controller, and the Job of a cleaning during which a file has landed."""
    case.declare()
    case.land("a.parquet")
    controller = case.start(**options)
    with CarryingOut(case.cluster):
        case.until_ready()
        case.until(lambda: phases(case).get("ingest") == "Succeeded", "the first file is in")
    case.declare(rerun={"cleaning": 1})
    cleaning = case.until_job("cleaning")
    case.land("b.parquet")
    return controller, cleaning


def test_files_are_ingested_while_a_cleaning_runs(case: ControllerCase) -> None:
    controller, cleaning = cleaning_under_way(case)
    ingest = case.until_job("ingest")
    assert len(case.cluster.active_jobs()) == 2
    case.until(lambda: controller.budgets.running == 2, "each has a place")
    assert case.cluster.carry_out(ingest).source_files == 1
    case.until(lambda: phases(case)["ingest"] == "Succeeded", "the ingest has ended")
    assert phases(case)["cleaning"] == "Running"
    case.cluster.carry_out(cleaning)
    case.until(lambda: phases(case)["cleaning"] == "Succeeded", "the cleaning has ended")
    case.until(lambda: controller.budgets.running == 0, "no place is kept")


def test_a_table_waits_for_a_second_place_like_any_other(case: ControllerCase) -> None:
    controller, cleaning = cleaning_under_way(case, limits=Limits(operations_max=1))
    case.until(lambda: controller.budgets.waiting == 1, "the ingest is in line")
    time.sleep(1)
    assert len(case.cluster.active_jobs()) == 1
    case.cluster.carry_out(cleaning)
    assert case.cluster.carry_out(case.until_job("ingest")).source_files == 1
