"""This release is installed over the last one while work is under way."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.build.previous_release import PreviousRelease
from e2e.harness.cluster import Manifest
from e2e.harness.installation import IMAGES, Operator, image_of
from e2e.harness.lake import DRIVER, WORKER, Lake

MANY = 600_000


def test_this_release_takes_over_the_job_that_the_last_one_started(
    lake: Lake, operator: Operator, previous_release: PreviousRelease
) -> None:
    try:
        operator.install([previous_release.install], previous_release.images)
        (old,) = operator.pods()
        assert image_of(old) == previous_release.images["tideline-operator"]
        lake.land("people", "many", [{"id": number, "ts": 1} for number in range(MANY)])
        # A driver without Spark would be done before the new operator leads.
        lake.apply_table("people", engine={"small": "Spark"})
        driver = lake.wait_for_pod(DRIVER)
        assert image_of(driver) == previous_release.images["tideline-engine"]
        (before,) = lake.jobs("people")

        operator.apply()
        operator.wait_until_ready()
        (new,) = operator.pods()
        assert image_of(new) == IMAGES["tideline-operator"]
        assert image_id(new) != image_id(old), "the last release is this one under another name"
        lake.cluster.wait_until(
            lambda: operator.leader().startswith(new["metadata"]["name"]),
            "the new operator is the leader",
            timeout_s=60,
        )
        (running,) = lake.jobs("people")
        assert running["status"].get("active"), "the Job was over before the new operator led"

        done = lake.wait_for_operation("people", "ingest")
        (after,) = lake.jobs("people")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert done.get("attempt", 1) == 1
        assert sorted(lake.by_id("people")) == list(range(MANY))

        # Today's engine continues where the last one's commit ended.
        lake.land("people", "more", [{"id": MANY, "ts": 1}])
        lake.wait_for_operation("people", "ingest", count=2)
        assert sorted(lake.by_id("people")) == list(range(MANY + 1))
        images = {image_of(pod) for pod in lake.pods(DRIVER)}
        assert images == {previous_release.images["tideline-engine"], IMAGES["tideline-engine"]}
    finally:
        operator.apply()
        operator.wait_until_ready()


def test_a_worker_of_the_last_release_ends_its_work_and_gets_no_more(
    lake: Lake, operator: Operator, previous_release: PreviousRelease
) -> None:
    try:
        operator.install([previous_release.install], previous_release.images)
        lake.apply_store(engine={"warm": {"maxWorkers": 1}})
        lake.land("people", "many", [{"id": number, "ts": 1} for number in range(MANY)])
        lake.apply_table("people")
        instant = lake.wait_for_inflight("people")
        (old,) = lake.running(WORKER)
        assert image_of(old) == previous_release.images["tideline-engine"]

        operator.apply()
        operator.wait_until_ready()
        done = lake.wait_for_operation("people", "ingest")
        assert (done["instant"], done.get("attempt", 1)) == (instant, 1)
        assert done["worker"] == old["metadata"]["labels"]["batch.kubernetes.io/job-name"]

        # Its place is taken by a worker with today's engine, which finds what it left.
        lake.land("people", "more", [{"id": MANY, "ts": 1}])
        lake.wait_for_ids("people", range(MANY + 1))
        lake.cluster.wait_gone("Pod", old["metadata"]["name"], lake.namespace, timeout_s=60)
        (new,) = lake.running(WORKER)
        assert image_of(new) == IMAGES["tideline-engine"]
    finally:
        operator.apply()
        operator.wait_until_ready()


@pytest.mark.parametrize("older", ["tideline-engine", "tideline-operator"])
def test_an_operator_and_an_engine_of_neighbouring_releases_work_together(
    older: str, lake: Lake, operator: Operator, previous_release: PreviousRelease
) -> None:
    images = {**IMAGES, older: previous_release.images[older]}
    try:
        if older == "tideline-operator":
            operator.install([previous_release.install], images)
        else:
            operator.install(images=images)
        lake.land("people", "first", [{"id": number, "ts": 1} for number in range(10)])
        lake.apply_table("people", services={"compaction": {"trigger": {"deltaCommits": 2}}})
        lake.wait_for_ids("people", range(10))
        for batch in (1, 2):
            rows = [{"id": number, "ts": 1 + batch} for number in range(5 * batch, 10 + batch)]
            lake.land("people", f"batch-{batch}", rows)
            lake.wait_for_operation("people", "ingest", count=1 + batch)
        lake.wait_for_operation("people", "compaction")
        assert sorted(lake.by_id("people")) == list(range(12))
        engines = {image_of(pod) for pod in lake.pods(DRIVER)}
        assert engines == {images["tideline-engine"]}
        assert {image_of(pod) for pod in operator.pods()} == {images["tideline-operator"]}
    finally:
        operator.install()


def image_id(pod: Manifest) -> Any:
    """The digest of the image of its container."""
    return pod["status"]["containerStatuses"][0]["imageID"]
