"""The operator in a cluster, installed from the committed manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.harness.cluster import Cluster, Manifest, load_manifests

NAMESPACE = "tideline-system"
DEPLOYMENT = "tideline-operator"
IMAGES = {
    "tideline-operator": "localhost/tideline-operator:dev",
    "tideline-engine": "localhost/tideline-engine:dev",
}
"""By the last part of a name in operator.yaml, the image that is tested in its place."""

RANGES = "10.0.0.0/8"
"""Where the clusters under test have their Services: tables use a MinIO of another namespace."""

_ROOT = Path(__file__).resolve().parents[2]
_CHART = _ROOT / "charts" / "tideline"
_WITHOUT_CRDS = _CHART / "operator.yaml"
_INSTALL = (*sorted((_CHART / "crds").iterdir()), _WITHOUT_CRDS)
_ACCESS = _ROOT / "examples" / "kubernetes" / "operator-access.yaml"
_READY_TIMEOUT_S = 120.0


class Operator:
    """The installed operator."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def install(self, paths: Sequence[Path] = _INSTALL, images: Mapping[str, str] = IMAGES) -> None:
        """Apply everything, with the images under test, and wait until the operator is ready."""
        for image in images.values():
            self._cluster.load_image(image)
        self.apply(paths, images)
        # In a cluster that was kept, the pods may still run an image that was built before.
        self._cluster.kubectl("rollout", "restart", "-n", NAMESPACE, f"deploy/{DEPLOYMENT}")
        for manifest in _manifests(paths):
            if manifest["kind"] == "CustomResourceDefinition":
                name = f"crd/{manifest['metadata']['name']}"
                self._cluster.kubectl("wait", "--for=condition=Established", name, "--timeout=30s")
        self.wait_until_ready()

    def apply(self, paths: Sequence[Path] = _INSTALL, images: Mapping[str, str] = IMAGES) -> None:
        for manifest in _manifests(paths):
            self._cluster.apply(_with_ranges(_with_images(manifest, images)))

    def remove(self) -> None:
        """Delete it and its namespace; definitions of resources stay, with all that is in them."""
        self._cluster.kubectl("delete", "--ignore-not-found", "-f", str(_WITHOUT_CRDS))

    def wait_until_ready(self) -> None:
        timeout = f"--timeout={_READY_TIMEOUT_S:.0f}s"
        self._cluster.kubectl("rollout", "status", "-n", NAMESPACE, f"deploy/{DEPLOYMENT}", timeout)

    def pods(self) -> list[Manifest]:
        """Its pods that are not terminating."""
        labels = "app.kubernetes.io/name=tideline,app.kubernetes.io/component=operator"
        pods = self._cluster.list("Pod", NAMESPACE, labels=labels)
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def scale(self, replicas: int) -> None:
        self._cluster.patch("Deployment", DEPLOYMENT, NAMESPACE, {"spec": {"replicas": replicas}})
        if replicas:
            self.wait_until_ready()
            return
        self._cluster.wait_until(lambda: not self.pods(), "the operator ends", timeout_s=60)

    def kill(self, pod: Manifest) -> None:
        """End a pod at once, as a node that fails would: SIGKILL, and no container in its place."""
        self._cluster.kill_containers(pod)
        name = pod["metadata"]["name"]
        self._cluster.kubectl("delete", "pod", "-n", NAMESPACE, name, "--grace-period=0", "--force")

    def close_nodes(self) -> None:
        """Let no node take new pods, until `open_nodes`."""
        self._let_nodes_take_pods(False)

    def open_nodes(self) -> None:
        self._let_nodes_take_pods(True)

    @contextmanager
    def setting(self, name: str, value: str) -> Iterator[None]:
        """The operator with another environment variable for the length of a block."""
        self._set_environment(f"{name}={value}")
        try:
            yield
        finally:
            self._set_environment(f"{name}-")
            self.apply()
            self.wait_until_ready()

    def leader(self) -> str:
        """The pod that holds the Lease."""
        lease = self._cluster.get("Lease", "tideline-operator", NAMESPACE)
        assert lease is not None, "no Lease tideline-operator"
        return str(lease["spec"]["holderIdentity"])

    def leading_pod(self) -> Manifest:
        """That pod, once it is one that lives."""
        found: list[Manifest] = []

        def leads() -> bool:
            leader = self.leader()
            found[:] = [pod for pod in self.pods() if leader.startswith(pod["metadata"]["name"])]
            return bool(found)

        self._cluster.wait_until(leads, "a pod leads", timeout_s=60)
        return found[0]

    def _let_nodes_take_pods(self, wanted: bool) -> None:
        for node in self._cluster.list("Node"):
            change = {"spec": {"unschedulable": not wanted}}
            self._cluster.patch("Node", node["metadata"]["name"], None, change)

    def _set_environment(self, change: str) -> None:
        place = ("-n", NAMESPACE, f"deploy/{DEPLOYMENT}")
        self._cluster.kubectl("set", "env", *place, change)
        self.wait_until_ready()

    def logs(self) -> str:
        return self._cluster.kubectl(
            "logs", "-n", NAMESPACE, f"deploy/{DEPLOYMENT}", "--tail=-1", check=False
        )


def image_of(pod: Manifest) -> str:
    """The name of the image that a pod's container was asked to run."""
    return str(pod["spec"]["containers"][0]["image"])


def let_operator_in(cluster: Cluster, namespace: str) -> None:
    """What a namespace's administrator does once, as examples/kubernetes does it."""
    (binding,) = load_manifests(_ACCESS)
    metadata = {**binding["metadata"], "namespace": namespace}
    cluster.apply({**binding, "metadata": metadata})


def _manifests(paths: Sequence[Path]) -> Iterator[Manifest]:
    for path in paths:
        yield from load_manifests(path)


def _with_ranges(manifest: Manifest) -> Manifest:
    """The manifest with the ranges that the operator under test connects to."""
    if manifest["kind"] == "Deployment":
        for container in manifest["spec"]["template"]["spec"]["containers"]:
            for variable in container.get("env", ()):
                if variable["name"] == "TIDELINE_EGRESS_ALLOWED_RANGES":
                    variable["value"] = RANGES
    return manifest


def _with_images(value: Any, images: Mapping[str, str]) -> Any:
    """The manifest with every image of ours replaced by the one under test."""
    if isinstance(value, dict):
        return {key: _with_images(item, images) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_images(item, images) for item in value]
    if isinstance(value, str):
        repository = value.partition("@")[0].rpartition("/")[2].partition(":")[0]
        if repository in images and (":" in value or "@" in value):
            return images[repository]
    return value
