"""Whether the writer that a heartbeat names is gone: pods decide, and past the caches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tideline.ingest.operation.operation import writer_name
from tideline_operator.api_objects import JOBS, PODS, Manifest
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.writer_state import WriterStates
from tideline_operator.decide.observed import Observed, ObservedPending, WriterState
from tideline_operator.launch.driver_job import OPERATION_LABEL, TABLE_LABEL
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus
from tideline_operator.testing.memory_api import MemoryApi
from tideline_operator.testing.table_states import TABLE

KEY = ("lake", "people")
ID, UID = "people-ingest-1", "0f12"
ENTRY = OperationStatus(
    id=ID, kind="ingest", phase=OperationPhase.FAILED, started_at=Timestamp(0), pod_uid=UID
)


class Case:
    """A table with a write that a driver of ours began."""

    def __init__(self) -> None:
        self.api, self.pods = MemoryApi(), ObjectCache(label=TABLE_LABEL)
        self.status = LakeTableStatus(operations=(ENTRY,))
        self.writer, self.running = writer_name(ID, UID), frozenset[str]()

    def checked(self) -> ObservedPending:
        pending_instant = ObservedPending(
            "20260101000000000", "commit", "inflight", dead_at_ms=5, writer=self.writer
        )
        observed = Observed(replace(TABLE, pending=(pending_instant,)), running=self.running)
        found = WriterStates(self.api, self.pods).check(KEY, self.status, observed).table
        assert found is not None
        return found.pending[0]

    def make_pod(self, phase: str, uid: str = UID) -> Manifest:
        return {
            "metadata": {
                "name": f"pod-{uid}",
                "namespace": "lake",
                "uid": uid,
                "resourceVersion": "1",
                "labels": {OPERATION_LABEL: ID, TABLE_LABEL: "people"},
            },
            "status": {"phase": phase},
        }

    def make_job(self, **metadata: Any) -> None:
        labels = {OPERATION_LABEL: ID, TABLE_LABEL: "people"}
        made = {"metadata": {"name": f"{ID}-1", "labels": labels, **metadata}}
        self.api.create(JOBS, made, "lake")


@pytest.fixture
def case() -> Case:
    return Case()


def test_a_writer_without_pods_is_gone_and_its_write_dead(case: Case) -> None:
    found = case.checked()
    assert (found.writer_state, found.is_dead, found.dead_at_ms) == (WriterState.GONE, True, None)


@pytest.mark.parametrize(("phase", "state"), [("Running", "ENDING"), ("Failed", "GONE")])
def test_a_pod_that_only_the_server_has_counts(case: Case, phase: str, state: str) -> None:
    """An executor that the watch has not shown yet."""
    case.api.create(PODS, case.make_pod(phase, uid="another"), "lake")
    found = case.checked()
    assert found.writer_state is WriterState[state]
    assert found.is_dead is (state == "GONE")


@pytest.mark.parametrize(("phase", "state"), [("Running", "ENDING"), ("Failed", "GONE")])
def test_a_pod_that_the_watch_has_shown_counts(case: Case, phase: str, state: str) -> None:
    case.pods.put(case.make_pod(phase))
    assert case.checked().writer_state is WriterState[state]


def test_a_job_that_may_start_another_pod_counts(case: Case) -> None:
    case.make_job()
    assert case.checked().writer_state is WriterState.ENDING
    case.api.patch(JOBS, f"{ID}-1", {"metadata": {"deletionTimestamp": "2026-01-01"}}, "lake")
    assert case.checked().writer_state is WriterState.GONE


@pytest.mark.parametrize("why", ["of another cluster", "no operation's", "under way"])
def test_of_other_writers_only_the_heartbeat_counts(case: Case, why: str) -> None:
    if why == "of another cluster":
        case.writer = writer_name(ID, "1f34")
    elif why == "no operation's":
        case.writer = "somebody"
    else:
        case.running = frozenset({ID})
    found = case.checked()
    assert (found.writer_state, found.is_dead, found.dead_at_ms) == (WriterState.UNKNOWN, False, 5)
