"""A spy in the cluster: an endpoint that records every byte it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.harness.cluster import Cluster
from e2e.harness.installation import IMAGES

NAME, PORT = "spy", 8099
_SERVER = Path(__file__).with_name("spy_server.py")


class Spy:
    """The spy of one namespace, which sends clients on to `targets`."""

    def __init__(self, cluster: Cluster, namespace: str, targets: tuple[str, ...]) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._targets = targets
        self.endpoint = f"http://{NAME}.{namespace}.svc.cluster.local:{PORT}"

    def start(self) -> None:
        """Run it, and wait until it answers."""
        named = {"name": NAME, "namespace": self._namespace}
        image = IMAGES["tideline-operator"]
        self._cluster.load_image(image)
        code = {"spy_server.py": _SERVER.read_text("utf-8")}
        confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        container = {
            "name": NAME,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["python", "-I", "/spy/spy_server.py"],
            "env": [{"name": "TIDELINE_SPY_TARGETS", "value": " ".join(self._targets)}],
            "ports": [{"containerPort": PORT}],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            "securityContext": confined,
            "volumeMounts": [{"name": "code", "mountPath": "/spy"}],
        }
        spec = {
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "code", "configMap": {"name": NAME}}],
        }
        pod = {**named, "labels": {"app": NAME}}
        service = {"selector": {"app": NAME}, "ports": [{"port": PORT}]}
        self._cluster.apply_all(
            (
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": code},
                {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": spec},
                {"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": service},
            )
        )
        self._cluster.kubectl(
            "wait", "-n", self._namespace, "--for=condition=Ready", f"pod/{NAME}", "--timeout=120s"
        )

    def heard(self) -> str:
        """Everything that it was sent."""
        return self._cluster.kubectl("logs", "-n", self._namespace, NAME, "--tail=-1")

    def requests(self) -> list[dict[str, Any]]:
        """The same, one for each request but the readiness probes, which send none."""
        return [json.loads(line) for line in self.heard().splitlines() if line.startswith("{")]
