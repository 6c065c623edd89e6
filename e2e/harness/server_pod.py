"""A server of the test's own in a pod: Python files in an image of ours, and its Service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.harness.cluster import Cluster, Manifest


def from_secret(variable: str, secret: str, key: str) -> Manifest:
    """An environment variable that has the value of a Secret's key."""
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


class ServerPod:
    """`program` as the pod `name` of a namespace, which answers at `endpoint`; the files
    `beside` it are in its folder."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        program: Path,
        *,
        image: str,
        port: int,
        environment: Sequence[Manifest] = (),
        labels: Mapping[str, str] | None = None,
        beside: Sequence[Path] = (),
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._program = program
        self._files = (program, *beside)
        self._image = image
        self._port = port
        self._environment = list(environment)
        self._labels = dict(labels or {})
        self.endpoint = f"http://{name}.{namespace}.svc.cluster.local:{port}"

    def start(self) -> None:
        """Run it, and wait until it answers."""
        named = {"name": self._name, "namespace": self._namespace}
        self._cluster.load_image(self._image)
        code = {file.name: file.read_text("utf-8") for file in self._files}
        pod = {**named, "labels": {"app": self._name, **self._labels}}
        service = {"selector": {"app": self._name}, "ports": [{"port": self._port}]}
        self._cluster.apply_all(
            (
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": code},
                {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": self._pod_spec()},
                {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": service},
            )
        )
        waited = ("--for=condition=Ready", f"pod/{self._name}", "--timeout=120s")
        self._cluster.kubectl("wait", "-n", self._namespace, *waited)

    def log(self) -> str:
        """Everything that it printed."""
        return self._cluster.kubectl("logs", "-n", self._namespace, self._name, "--tail=-1")

    def reaches(self, address: str) -> bool:
        """Whether a connection from the pod to HOST:PORT comes about within seconds."""
        host, _, port = address.rpartition(":")
        place = ("-n", self._namespace, self._name, "--", "python", "-I", "-c")
        code = f"import socket; socket.create_connection(({host!r}, {port}), 3); print('reached')"
        return "reached" in self._cluster.kubectl("exec", *place, code, check=False)

    def _pod_spec(self) -> Manifest:
        container = {
            "name": self._name,
            "image": self._image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-I", f"/server/{self._program.name}"],
            "env": self._environment,
            "ports": [{"containerPort": self._port}],
            "readinessProbe": {"tcpSocket": {"port": self._port}, "periodSeconds": 1},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "code", "mountPath": "/server"}],
        }
        return {
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "code", "configMap": {"name": self._name}}],
        }
