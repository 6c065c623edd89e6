"""What a user can ask of a running table: suspend, resume, restore, rerun, delete."""

from __future__ import annotations

from e2e.harness.cluster import Manifest, condition
from e2e.harness.lake import Lake


def row(number: int, ts: int = 1) -> Manifest:
    return {"id": number, "ts": ts, "name": f"row {number} of {ts}"}


def table_with_one_row(lake: Lake, **changes: object) -> None:
    lake.land("people", "first", [row(1)])
    lake.apply_table("people", **changes)
    lake.wait_for_ids("people", [1])


def assert_quiet(lake: Lake) -> None:
    """Nothing is ingested although a file waits, while a table beside it takes two in."""
    jobs = {job["metadata"]["uid"] for job in lake.jobs("people") if runs_an_ingest(job)}
    lake.apply_table("beside")
    for number in (1, 2):
        lake.land("beside", f"file-{number}", [row(number)])
        lake.wait_for_ids("beside", range(1, number + 1))
    assert sorted(lake.by_id("people")) == [1]
    assert jobs == {job["metadata"]["uid"] for job in lake.jobs("people") if runs_an_ingest(job)}


def runs_an_ingest(job: Manifest) -> bool:
    return "ingest" in job["metadata"]["name"]


def test_a_suspended_table_stands_still_until_it_is_resumed(lake: Lake) -> None:
    table_with_one_row(lake)
    lake.patch("people", {"suspend": True})
    lake.wait_for("people", "Paused")
    lake.land("people", "second", [row(2)])
    assert_quiet(lake)
    lake.patch("people", {"suspend": False})
    lake.wait_for_ids("people", [1, 2])
    lake.wait_for("people", "Paused", "False")


def test_the_annotation_pauses_like_the_field(lake: Lake) -> None:
    lake.apply_table("people")
    for value, status in (("true", "True"), (None, "False")):
        change = {"metadata": {"annotations": {"tideline.dev/paused": value}}}
        lake.cluster.patch("LakeTable", "people", lake.namespace, change)
        lake.wait_for("people", "Paused", status)


def test_a_fenced_table_ingests_nothing_but_its_services_run(lake: Lake) -> None:
    table_with_one_row(lake)
    lake.patch("people", {"fenced": True})
    lake.wait_for("people", "Ingesting", "False", reason="Fenced")
    lake.land("people", "second", [row(2)])
    lake.patch("people", {"rerun": {"cleaning": 1}})
    lake.wait_for_operation("people", "cleaning")
    assert_quiet(lake)
    lake.patch("people", {"fenced": False})
    lake.wait_for_ids("people", [1, 2])


def test_a_table_goes_back_to_a_savepoint_and_on_from_there(lake: Lake) -> None:
    table_with_one_row(lake, savepoints=[{"name": "before"}])
    lake.wait_for_operation("people", "savepoint")
    lake.land("people", "second", [row(2)])
    lake.wait_for_ids("people", [1, 2])
    lake.patch("people", {"restoreTo": "before"})
    lake.wait_for_operation("people", "restore")
    lake.wait_for_ids("people", [1])
    assert condition(lake.get("people"), "Ingesting").get("reason") == "Fenced"
    lake.patch("people", {"restoreTo": None})
    lake.wait_for_ids("people", [1, 2])


def test_deleting_a_table_keeps_its_data_by_default(lake: Lake) -> None:
    table_with_one_row(lake)
    lake.cluster.delete("LakeTable", "people", lake.namespace)
    lake.cluster.wait_gone("LakeTable", "people", lake.namespace, timeout_s=60)
    assert sorted(lake.by_id("people")) == [1]
    lake.cluster.wait_until(lambda: not lake.jobs("people"), "its Jobs go", timeout_s=60)


def test_deleting_a_table_deletes_its_data_when_the_policy_says_so(lake: Lake) -> None:
    table_with_one_row(lake, deletionPolicy="Delete")
    lake.cluster.delete("LakeTable", "people", lake.namespace)
    lake.cluster.wait_gone("LakeTable", "people", lake.namespace, timeout_s=120)
    assert lake.paths("people/") == []
    assert lake.paths("landing/people/") != []


def test_a_namespace_is_deleted_in_any_state_of_its_tables(lake: Lake) -> None:
    table_with_one_row(lake, deletionPolicy="Delete")
    lake.land("people", "second", [row(number) for number in range(100_000)])
    lake.cluster.delete("Namespace", lake.namespace)
    lake.cluster.wait_gone("Namespace", lake.namespace, None, timeout_s=240)
