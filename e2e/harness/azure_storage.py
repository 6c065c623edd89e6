"""Azurite for pods. It runs on this machine, as images have no Node; a relay on the network of the
node passes requests on."""

from __future__ import annotations

from pathlib import Path

from e2e.harness.cloud_storage import CloudStorage
from e2e.harness.cluster import Cluster, Manifest
from e2e.harness.installation import IMAGES
from e2e.harness.lake import Lake
from e2e.node.node_folder import NodeFolder
from tideline.testing.azurite_server import ACCOUNT, AzuriteServer, build

NAMESPACE = "azure"
_PORT = 10_000
_PROGRAM = Path(__file__).with_name("relay_server.py")


class AzureStorage(CloudStorage):
    """The server, and the LakeStore of its name in the namespace of a lake."""

    name = "azure"

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        build()
        node = NodeFolder(lake.cluster.name)
        self._relay = f"http://{node.node_address}:{_PORT}/{ACCOUNT}"
        self._server = AzuriteServer(node.host_address)
        self.root = self._server.uri("lake")

    def start(self) -> None:
        """Run it, and wait until the relay answers."""
        self._server.__enter__()
        self._server.create_container("lake")
        self._lake.cluster.load_image(IMAGES["tideline-engine"])
        self._lake.cluster.delete("Pod", "relay", NAMESPACE, gracePeriodSeconds=0)
        self._lake.cluster.wait_gone("Pod", "relay", NAMESPACE, timeout_s=60)
        self._lake.cluster.apply_all(_manifests(self._server.address))
        waited = ("--for=condition=Ready", "pod/relay", "--timeout=120s")
        self._lake.cluster.kubectl("wait", "-n", NAMESPACE, *waited)
        self._lake.apply_secret(self._server.environment(), "azure-key")
        spec = {"account": ACCOUNT, "endpoint": self._relay}
        self.declare({"azure": spec, "credentials": {"secretName": "azure-key"}})

    def stop(self) -> None:
        self._lake.cluster.delete("Pod", "relay", NAMESPACE, gracePeriodSeconds=0)
        self._server.__exit__(None, None, None)

    def environment(self) -> dict[str, str]:
        return dict(self._server.environment())

    def options(self) -> dict[str, str]:
        return dict(self._server.storage_options())

    def pod_template(self) -> Manifest:
        return self.quick_pods({})


def runs_here(cluster: Cluster) -> bool:
    """Whether the node is one of ours, whose pods reach this machine."""
    return NodeFolder(cluster.name).path.exists()


def _manifests(server: str) -> tuple[Manifest, ...]:
    named = {"name": "relay", "namespace": NAMESPACE}
    code = {_PROGRAM.name: _PROGRAM.read_text("utf-8")}
    container = {
        "name": "relay",
        "image": IMAGES["tideline-engine"],
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-I", f"/server/{_PROGRAM.name}", str(_PORT), server],
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": "code", "mountPath": "/server"}],
    }
    spec = {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "code", "configMap": {"name": "relay"}}],
    }
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": code},
        {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec},
    )
