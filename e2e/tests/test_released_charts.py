"""Two released charts, the newer over the older and back, while tables are at work."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.harness.cluster import Cluster
from e2e.harness.installation import NAMESPACE, RANGES, Operator, image_of
from e2e.harness.lake import DRIVER, Lake
from e2e.harness.made_release import Made

pytestmark = pytest.mark.release

MANY = 600_000


def test_an_upgrade_and_a_rollback_leave_running_work_alone(
    made: Made, cluster: Cluster, operator: Operator, lake: Lake, tmp_path: Path
) -> None:
    newer = made.next_one(tmp_path)
    kubernetes = {"KUBECONFIG": str(cluster.kubeconfig.resolve())}
    user = replace(made, environment={**made.environment, **kubernetes})
    engines = {item.version: reference(item, "engine") for item in (made, newer)}
    assert len(set(engines.values())) == 2
    operator.remove()
    try:
        with made.registry.served_on_node(cluster):
            values = f"egress.allowedRanges={{{RANGES}}}"
            user.done(chart("install", made) + f" --create-namespace --set {values}")
            lake.land("people", "many", rows(0, MANY))
            # A driver without Spark would be done before the new operator leads.
            lake.apply_table("people", engine={"small": "Spark"})
            started = work_under_way(lake, engines[made.version])

            user.done(f"kubectl apply --server-side -f {newer.folder}/crds.yaml")
            user.done(chart("upgrade", newer) + " --reset-then-reuse-values")
            assert running_images(operator) == {reference(newer, "operator")}
            assert still_under_way(lake, operator, started)
            done = lake.wait_for_operation("people", "ingest")
            assert done.get("attempt", 1) == 1
            assert uid_of_newest_job(lake) == started

            # The next work is the newer release's; on the way back it is let alone as well.
            lake.land("people", "as-many", rows(MANY, 2 * MANY))
            second = work_under_way(lake, engines[newer.version])
            assert second != started
            user.done(f"helm rollback tideline 1 --namespace {NAMESPACE} --wait --timeout 3m")
            assert running_images(operator) == {reference(made, "operator")}
            assert still_under_way(lake, operator, second)
            done = lake.wait_for_operation("people", "ingest", count=2)
            assert done.get("attempt", 1) == 1
            assert uid_of_newest_job(lake) == second

            lake.land("people", "more", rows(2 * MANY, 2 * MANY + 1))
            lake.wait_for_operation("people", "ingest", count=3)
            assert sorted(lake.by_id("people")) == list(range(2 * MANY + 1))
            images = [image_of(pod) for pod in lake.pods(DRIVER)]
            assert sorted(set(images)) == sorted(engines.values())
            assert images.count(engines[newer.version]) == 1
            user.done(f"helm uninstall tideline --namespace {NAMESPACE} --wait")
    finally:
        operator.install()
        shutil.rmtree(newer.folder)


def chart(verb: str, release: Made) -> str:
    """Helm's command about the chart of a release."""
    return (
        f"helm {verb} tideline oci://{release.place}/charts/tideline --plain-http"
        f" --version {release.version} --namespace {NAMESPACE} --wait --timeout 3m"
    )


def rows(first: int, end: int) -> list[dict[str, int]]:
    return [{"id": number, "ts": 1} for number in range(first, end)]


def reference(release: Made, image: str) -> str:
    """An image as the release names it."""
    name = f"{release.place}/tideline-{image}"
    digest = release.done(f"crane digest {name}:{release.version}").strip()
    return f"{name}@{digest}"


def running_images(operator: Operator) -> set[str]:
    """Of the operator's pods that stay."""
    operator.wait_until_ready()
    return {image_of(pod) for pod in operator.pods()}


def work_under_way(lake: Lake, engine: str) -> str:
    """The Job whose driver runs now, of this engine."""
    lake.cluster.wait_until(
        lambda: any(image_of(pod) == engine for pod in lake.running(DRIVER)),
        f"a driver of {engine} runs",
        timeout_s=120,
    )
    return uid_of_newest_job(lake)


def still_under_way(lake: Lake, operator: Operator, uid: str) -> bool:
    """Whether the Job is not over when a new operator leads."""
    operator.wait_until_ready()
    operator.leading_pod()
    (job,) = (job for job in lake.jobs("people") if job["metadata"]["uid"] == uid)
    return bool(job["status"].get("active"))


def uid_of_newest_job(lake: Lake) -> str:
    newest = max(lake.jobs("people"), key=lambda job: str(job["metadata"]["creationTimestamp"]))
    return str(newest["metadata"]["uid"])
