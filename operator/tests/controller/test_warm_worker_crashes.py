"""A controller that dies at any write of an assignment: the operation is carried out once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.testing.worker_thread import WorkerThread
from tideline_operator.api_objects import Manifest
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.mortal_api import replace_dead, start_mortal
from tideline_operator.testing.worker_pods import WorkerPods

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def ended(case: ControllerCase, kind: str) -> Manifest | None:
    """The one operation of a kind, once it has ended."""
    (found,) = [operation for operation in case.operations() if operation["kind"] == kind]
    return found if found["phase"] not in ("Pending", "Running") else None


@pytest.mark.parametrize("last_arrives", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(1, 10))
def test_a_death_at_any_write_of_an_assignment_repeats_and_loses_nothing(
    case: ControllerCase, api_server: ApiServer, tmp_path: Path, writes: int, last_arrives: bool
) -> None:
    case.declare_store(engine={"warm": {}})
    case.declare(storeRef="store")
    with WorkerPods(case, api_server, tmp_path, start_worker=WorkerThread):
        mortal, api = start_mortal(case, api_server, writes, last_arrives=last_arrives)
        replace_dead(case, mortal, api)
        case.until_ready()
        # The table may be there before its creation is in the status.
        created = case.until(lambda: ended(case, "create"), "the creation has ended")
    assert (created["phase"], created["message"]) == ("Succeeded", "created the table")
    assert created.get("attempt", 1) == 1
    assert len(case.cluster.all_jobs()) == 1
