"""The chart's NetworkPolicies on a node that enforces them: the product works, others stay out."""

from __future__ import annotations

from pathlib import Path

from e2e.harness import spy
from e2e.harness.helm import HelmRelease
from e2e.harness.installation import IMAGES, Operator
from e2e.harness.lake import SMALL_RESOURCES, Lake, some_rows
from e2e.harness.server_pod import ServerPod

OF_THE_ENGINE = {"app.kubernetes.io/managed-by": "tideline-operator"}
BLOCKS, OTHER = 7079, 8099
"""A port that drivers and executors use among each other, and one that no policy names."""
METRICS, HEALTH = 8080, 8081
_SERVER = Path(spy.__file__).with_name("spy_server.py")


def test_the_product_works_and_no_other_connection_comes_about(
    lake: Lake, release: HelmRelease, operator: Operator
) -> None:
    pods = {name: server(lake, name, port) for name, port in (("blocks", BLOCKS), ("other", OTHER))}
    inside = ServerPod(
        lake.cluster, lake.namespace, "inside", _SERVER,
        image=IMAGES["tideline-operator"], port=OTHER, labels=OF_THE_ENGINE,
    )  # fmt: skip
    for pod in (*pods.values(), inside):
        pod.start()
    release.install(namespaces=[lake.namespace])
    address = operator.pods()[0]["status"]["podIP"]
    blocks, other = (pod.endpoint.removeprefix("http://") for pod in pods.values())
    asked = [
        (inside, blocks, True),
        (inside, other, False),
        (pods["other"], other, True),
        (pods["other"], blocks, False),
        (pods["other"], f"{address}:{METRICS}", True),
        (pods["other"], f"{address}:{HEALTH}", True),
        (inside, f"{address}:{METRICS}", False),
    ]
    # Without policies everything is reached: what is not, later, is not because of them.
    assert [pod.reaches(target) for pod, target, _ in asked] == [True] * len(asked)
    with lake.cluster.enforced_policies():
        lake.cluster.wait_until(
            lambda: not inside.reaches(other), "the policies hold", timeout_s=60
        )
        assert [pod.reaches(target) for pod, target, _ in asked] == [may for *_, may in asked]
        lake.land("people", "a", some_rows(50))
        # Executors fetch blocks from each other and from the driver.
        executor = {**SMALL_RESOURCES["executor"], "min": 2, "max": 2}
        lake.apply_table(
            "people",
            resources={**SMALL_RESOURCES, "executor": executor},
            engine={"small": "Spark"},
        )
        lake.wait_for_ids("people", range(50))
        lake.wait_for("people", "Ready")


def server(lake: Lake, name: str, port: int) -> ServerPod:
    """A server at a port; the one at the block port stands for a driver."""
    return ServerPod(
        lake.cluster, lake.namespace, name, _SERVER,
        image=IMAGES["tideline-operator"], port=port,
        environment=[{"name": "TIDELINE_SPY_PORT", "value": str(port)}],
        labels=OF_THE_ENGINE if port == BLOCKS else None,
    )  # fmt: skip
