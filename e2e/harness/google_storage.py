"""A stand-in of Google Cloud Storage in a pod, which anyone may read and write."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import tideline.testing
from e2e.harness.cloud_storage import CloudStorage
from e2e.harness.cluster import Manifest
from e2e.harness.google_storage_server import BUCKET, PORT
from e2e.harness.installation import IMAGES
from e2e.harness.lake import Lake
from e2e.harness.server_pod import ServerPod

UNSIGNED = {"GOOGLE_SKIP_SIGNATURE": "true"}
_PROGRAM = Path(__file__).with_name("google_storage_server.py")
_FILES = ("gcs_server.py", "gcs_json_api.py", "object_server.py", "loopback_server.py")


class GoogleStorage(CloudStorage):
    """The server, and the LakeStore of its name."""

    name = "google"
    root = f"gs://{BUCKET}"

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake)
        folder = Path(tideline.testing.__path__[0])
        self._pod = ServerPod(
            lake.cluster,
            lake.namespace,
            self.name,
            _PROGRAM,
            image=IMAGES["tideline-engine"],
            port=PORT,
            beside=[folder / name for name in _FILES],
        )
        self._forward: subprocess.Popen[str] | None = None
        self._address = ""

    def start(self) -> None:
        self._pod.start()
        self.declare({"gcs": {"endpoint": self._pod.endpoint}})
        self._forward, self._address = self._lake.cluster.start_forward(
            self._lake.namespace, f"service/{self.name}", PORT
        )

    def stop(self) -> None:
        if self._forward is not None:
            self._forward.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._forward.wait(10)

    def environment(self) -> dict[str, str]:
        return dict(UNSIGNED)

    def options(self) -> dict[str, str]:
        return {"gcs_endpoint": self._address, "allow_http": "true"}

    def pod_template(self) -> Manifest:
        return self.quick_pods(UNSIGNED)
