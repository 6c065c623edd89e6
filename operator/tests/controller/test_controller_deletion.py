"""Deleting tables: at once with Retain, with Delete after the data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.lake_table import LakeTable
from tideline.publication.place import CatalogPlace
from tideline_operator.api_objects import LAKE_TABLES, NAMESPACES, Manifest
from tideline_operator.controller.deletion import FINALIZER
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.simulated_cluster import CarryingOut

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def finalizers(table: Manifest) -> list[str]:
    return list(table["metadata"].get("finalizers", ()))


def delete(case: ControllerCase, name: str = "people") -> None:
    case.api.delete(LAKE_TABLES, name, case.namespace)


def is_gone(case: ControllerCase, name: str = "people") -> bool:
    return case.api.get(LAKE_TABLES, name, case.namespace) is None


def files_of(case: ControllerCase, name: str = "people") -> list[Path]:
    return [path for path in (case.folder / name).rglob("*") if path.is_file()]


def run_with_delete(case: ControllerCase) -> None:
    """A table to be deleted with its data, of one commit."""
    case.land("a.parquet")
    case.declare(deletionPolicy="Delete")
    case.start()
    with CarryingOut(case.cluster):
        case.until(lambda: case.status().get("timeline", {}).get("completed") == 1, "a commit")
        case.until_ready()


def test_a_retained_table_goes_at_once_and_its_data_stays(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    assert finalizers(case.table()) == []
    case.stop()
    delete(case)
    assert is_gone(case)
    assert files_of(case)


def test_a_deleted_table_takes_its_data_with_it(case: ControllerCase) -> None:
    run_with_delete(case)
    assert finalizers(case.table()) == [FINALIZER]
    delete(case)
    case.until(lambda: is_gone(case), "it is gone")
    assert files_of(case) == []
    assert (case.folder / "people-landing" / "a.parquet").exists()
    case.until_event("DataDeleted")


def test_where_the_table_is_published_is_said_for_the_catalog_is_not_asked(
    case: ControllerCase,
) -> None:
    run_with_delete(case)
    place = CatalogPlace("lake", "sales.people").to_properties()
    named = {**place, "tideline.sync": "hive"}
    LakeTable.open(str(case.folder / "people")).hoodie_table.properties.set(named)
    delete(case)
    case.until(lambda: is_gone(case), "it is gone")
    assert files_of(case) == []
    case.until_event("DataDeleted")
    where = "sales.people in catalog lake, default.people in hive"
    assert f"{where} is still named there" in case.event_notes()


def test_the_finalizer_follows_the_policy_and_leaves_those_of_others(case: ControllerCase) -> None:
    case.declare(deletionPolicy="Delete")
    case.change("people", {"metadata": {"finalizers": ["example.com/other"]}})
    case.start()
    case.until(lambda: FINALIZER in finalizers(case.table()), "it is set")
    case.declare(deletionPolicy="Retain")
    case.until(lambda: finalizers(case.table()) == ["example.com/other"], "it is removed")
    case.change("people", {"metadata": {"finalizers": None}})


def test_what_runs_is_stopped_before_data_is_deleted(case: ControllerCase) -> None:
    case.declare(deletionPolicy="Delete")
    case.start()
    job = case.until_job("create")
    case.cluster.start_pod(job)
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    delete(case)
    case.until(
        lambda: any(item["metadata"].get("deletionTimestamp") for item in case.cluster.all_jobs()),
        "the Job is being stopped",
    )
    assert not is_gone(case)
    case.cluster.remove(job)
    case.until(lambda: is_gone(case), "it is gone")


def test_a_deletion_that_cannot_succeed_is_given_up_and_reported(case: ControllerCase) -> None:
    case.declare(
        deletionPolicy="Delete", location="s3://lake/people", storeRef="nowhere", ingest=None
    )
    case.start(deletion_deadline_s=2.0)
    case.until(lambda: FINALIZER in finalizers(case.table()), "it is set")
    delete(case)
    case.until(lambda: is_gone(case), "it is given up")
    case.until_event("DeletionGaveUp")


def put_file(case: ControllerCase, name: str, *, table: str = "people") -> Path:
    path = case.folder / table / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not the table's")
    return path


def until_gone(case: ControllerCase, name: str = "people") -> None:
    delete(case, name)
    case.until(lambda: is_gone(case, name), f"{name} is gone")


def test_files_that_are_not_the_tables_stay(case: ControllerCase) -> None:
    case.land("a.parquet")
    case.declare(deletionPolicy="Delete")
    case.start()
    with CarryingOut(case.cluster):
        case.until(lambda: case.status().get("timeline", {}).get("completed") == 1, "a commit")
    foreign = [put_file(case, f"exports/{number}.csv") for number in range(5)]
    assert case.status()["owned"]["identity"].startswith("hudi-")
    until_gone(case)
    assert sorted(files_of(case)) == sorted(foreign)
    assert {"DataDeleted", "DataKept"} <= set(case.event_reasons())
    assert "kept 5 files outside of the table: exports/0.csv" in case.event_notes()


def test_where_no_table_was_ever_made_nothing_is_deleted(case: ControllerCase) -> None:
    case.declare(deletionPolicy="Delete", schema=None)
    foreign = [put_file(case, f"{number}.csv") for number in range(5)]
    case.start()
    case.until(lambda: case.condition("Ready").get("reason") == "NoTable", "there is none")
    until_gone(case)
    assert sorted(files_of(case)) == sorted(foreign)
    assert case.event_reasons() == ["DataKept"]
    assert "kept 5 files: 0.csv" in case.event_notes()


def test_a_table_that_is_not_as_declared_is_never_deleted(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    until_gone(case)
    before = sorted(files_of(case))
    case.declare(
        "other",
        location=f"file://{case.folder}/people",
        ordering=["id"],
        ingest=None,
        deletionPolicy="Delete",
    )
    case.until(
        lambda: case.condition("Ready", "other").get("reason") == "TableMismatch", "the condition"
    )
    until_gone(case, "other")
    assert sorted(files_of(case)) == before
    case.until_event("DataKept", "other")


def test_a_table_that_replaced_the_managed_one_is_kept(case: ControllerCase) -> None:
    case.land("a.parquet")
    case.declare(deletionPolicy="Delete")
    case.start()
    with CarryingOut(case.cluster):
        case.until(lambda: case.status().get("timeline", {}).get("completed") == 1, "a commit")
    case.stop()
    # The same name, keys and type, but other instants: dropped and created by another engine.
    for instant in (case.folder / "people" / ".hoodie").glob("*.commit*"):
        instant.unlink()
    before = sorted(files_of(case))
    delete(case)
    case.start()
    case.until(lambda: is_gone(case), "it is gone")
    assert sorted(files_of(case)) == before
    assert "the newest instant seen of it" in case.event_notes()


def test_landing_files_of_another_table_below_it_stay(case: ControllerCase) -> None:
    case.declare(deletionPolicy="Delete", ingest=None)
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        source = {"format": "parquet", "path": f"file://{case.folder}/people/in"}
        case.declare("reader", ingest=[{"name": "a", "source": source, "trigger": {"every": "1s"}}])
        case.until(
            lambda: case.condition("Ready", "reader").get("reason") == "LocationTaken",
            "the landing prefix is refused",
        )
    message = case.condition("Ready", "reader")["message"]
    assert "spec.ingest[0].source.path" in message
    assert f"LakeTable {case.namespace}/people" in message
    waiting = put_file(case, "in/a.parquet")
    until_gone(case)
    assert files_of(case) == [waiting]
    assert f"it belongs to LakeTable {case.namespace}/reader" in case.event_notes()


def test_the_deadline_counts_from_when_the_deletion_was_seen(case: ControllerCase) -> None:
    case.declare(deletionPolicy="Delete")
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.stop()
    delete(case)
    time.sleep(3.0)
    # No controller ran for longer than the deadline: the deletion is done nevertheless.
    case.start(deletion_deadline_s=2.0)
    case.until(lambda: is_gone(case), "it is gone")
    assert files_of(case) == []
    case.until_event("DataDeleted")
    assert "DeletionGaveUp" not in case.event_reasons()


def test_a_refused_twin_deletes_nothing(case: ControllerCase) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
    case.declare(
        "twin", location=f"file://{case.folder}/people", ingest=None, deletionPolicy="Delete"
    )
    case.until(
        lambda: case.condition("Ready", "twin").get("reason") == "LocationTaken", "it is refused"
    )
    delete(case, "twin")
    case.until(lambda: is_gone(case, "twin"), "it is gone")
    assert files_of(case)
    case.until_event("DataKept", "twin")


def test_data_that_a_namespace_leaves_behind_is_told_in_the_log_and_counted(
    case: ControllerCase, caplog: pytest.LogCaptureFixture
) -> None:
    case.declare(
        deletionPolicy="Delete", location="s3://lake/people", storeRef="nowhere", ingest=None
    )
    case.start()
    case.until(lambda: FINALIZER in finalizers(case.table()), "it is set")
    case.api.delete(NAMESPACES, case.namespace)
    delete(case)
    case.until(lambda: is_gone(case), "it is gone")
    case.until(lambda: case.measured("tideline_deletions_total", result="gave_up") == 1, "counted")
    assert "DeletionGaveUp" not in case.event_reasons(), "a namespace that ends takes no events"
    assert "the data stays because the namespace is being deleted" in caplog.text
