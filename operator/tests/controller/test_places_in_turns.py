"""Places and workers over several turns: tables that leave the line, and workers that are busy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.lake_table import LakeTable
from tideline_operator.api_objects import LAKE_STORES, Manifest
from tideline_operator.controller.budgets import Limits
from tideline_operator.testing.memory_api import MemoryCase
from tideline_operator.testing.worker_pods import until_worker


@pytest.fixture
def case(tmp_path: Path) -> MemoryCase:
    return MemoryCase(tmp_path)


def create(case: MemoryCase, name: str) -> None:
    """The table, of the version that a simulated engine writes."""
    LakeTable.create(
        f"file://{case.folder}/{name}", record_key=["id"], ordering=["ts"], table_version=6
    )


def reason(case: MemoryCase, name: str) -> str:
    return str(case.condition("Ready", name).get("message", ""))


def test_a_table_that_wants_nothing_any_more_leaves_the_line(case: MemoryCase) -> None:
    for name in ("people", "orders", "trips"):
        create(case, name)
        case.land("a.parquet", table=name)
        case.declare(name)
    controller = case.start(limits=Limits(operations_max=1))
    for name in ("people", "orders", "trips"):
        case.turn(name)
    assert controller.budgets.waiting == 2
    assert "1 ahead of it in line" in reason(case, "trips")
    (case.folder / "orders-landing" / "a.parquet").unlink()
    case.turn("orders")
    assert controller.budgets.waiting == 1
    (job,) = case.cluster.active_jobs()
    case.cluster.carry_out(job)
    case.turn("people")
    case.turn("trips")
    (job,) = case.cluster.active_jobs()
    assert job["metadata"]["labels"]["tideline.dev/table"] == "trips"


def test_two_operations_of_a_table_get_two_workers(case: MemoryCase) -> None:
    create(case, "people")
    case.land("a.parquet")
    case.declare()
    case.start()
    case.cluster.carry_out(case.until_job("ingest"))
    case.until_ready()
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "store", "namespace": case.namespace},
        "spec": {"engine": {"warm": {"maxWorkers": 2}}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)
    case.declare(storeRef="store", rerun={"cleaning": 1})
    first = until_worker(case)
    case.cluster.start_pod(first)
    case.until(lambda: at_workers(case).get("cleaning"), "it was handed over")
    case.land("b.parquet")
    second = until_worker(case, but=(first["metadata"]["name"],))
    case.cluster.start_pod(second)
    case.until(lambda: at_workers(case).get("ingest"), "another one is under way")
    assert at_workers(case) == {
        "cleaning": first["metadata"]["name"],
        "ingest": second["metadata"]["name"],
    }


def at_workers(case: MemoryCase) -> dict[str, str]:
    """The workers of the operations under way, by kind."""
    under_way = (operation for operation in case.operations() if operation["phase"] == "Running")
    return {item["kind"]: item["worker"] for item in under_way}
