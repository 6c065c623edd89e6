"""A newer install.yaml is applied while work is under way."""

from __future__ import annotations

from e2e.harness.installation import IMAGES, Operator
from e2e.harness.lake import Lake

MANY = 200_000
NEXT = "localhost/tideline-operator:next"


def test_the_next_operator_takes_over_the_job_that_the_last_one_started(
    lake: Lake, operator: Operator
) -> None:
    lake.land("people", "many", [{"id": number, "ts": 1} for number in range(MANY)])
    lake.apply_table("people")
    lake.cluster.wait_until(lambda: lake.jobs("people"), "its Job is there", timeout_s=60)
    (before,) = lake.jobs("people")
    lake.cluster.tag_image(IMAGES["tideline-operator"], NEXT)
    try:
        operator.apply(images={**IMAGES, "tideline-operator": NEXT})
        operator.wait_until_ready()
        assert {pod["spec"]["containers"][0]["image"] for pod in operator.pods()} == {NEXT}
        assert lake.get("people")["status"]["operations"][-1]["phase"] == "Running"
        done = lake.wait_for_operation("people", "ingest")
        (after,) = lake.jobs("people")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert done.get("attempt", 1) == 1
        assert sorted(lake.by_id("people")) == list(range(MANY))
        lake.land("people", "more", [{"id": MANY, "ts": 1}])
        lake.wait_for_operation("people", "ingest", count=2)
        assert sorted(lake.by_id("people")) == list(range(MANY + 1))
    finally:
        operator.apply()
        operator.wait_until_ready()
