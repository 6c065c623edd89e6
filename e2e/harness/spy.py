"""A spy in the cluster: an endpoint that records every byte it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.harness.cluster import Cluster
from e2e.harness.installation import IMAGES
from e2e.harness.server_pod import ServerPod

NAME, PORT = "spy", 8099
_SERVER = Path(__file__).with_name("spy_server.py")


class Spy:
    """The spy of one namespace, which sends clients on to `targets`."""

    def __init__(self, cluster: Cluster, namespace: str, targets: tuple[str, ...]) -> None:
        self._pod = ServerPod(
            cluster,
            namespace,
            NAME,
            _SERVER,
            image=IMAGES["tideline-operator"],
            port=PORT,
            environment=[{"name": "TIDELINE_SPY_TARGETS", "value": " ".join(targets)}],
        )
        self.endpoint = self._pod.endpoint

    def start(self) -> None:
        """Run it, and wait until it answers."""
        self._pod.start()

    def heard(self) -> str:
        """Everything that it was sent."""
        return self._pod.log()

    def requests(self) -> list[dict[str, Any]]:
        """The same, one for each request but the readiness probes, which send none."""
        return [json.loads(line) for line in self.heard().splitlines() if line.startswith("{")]
