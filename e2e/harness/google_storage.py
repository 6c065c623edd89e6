"""A stand-in of Google Cloud Storage in a namespace, which anyone may read and write."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tideline.testing
from e2e.harness.google_storage_server import BUCKET, PORT
from e2e.harness.installation import IMAGES
from e2e.harness.lake import QUICK_JAVA, Lake, Row
from e2e.harness.server_pod import ServerPod
from tideline.storage.location import StoreLocation

NAME = "google"
UNSIGNED = {"GOOGLE_SKIP_SIGNATURE": "true"}
_PROGRAM = Path(__file__).with_name("google_storage_server.py")
_FILES = ("gcs_server.py", "gcs_json_api.py", "object_server.py", "loopback_server.py")


class GoogleStorage:
    """The server, and the LakeStore of its name."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        folder = Path(tideline.testing.__path__[0])
        self._pod = ServerPod(
            lake.cluster,
            lake.namespace,
            NAME,
            _PROGRAM,
            image=IMAGES["tideline-engine"],
            port=PORT,
            beside=[folder / name for name in _FILES],
        )
        self._forward: subprocess.Popen[str] | None = None
        self._options: dict[str, str] = {}

    def start(self) -> None:
        """Run it, and wait until it answers."""
        self._pod.start()
        self._lake.cluster.apply(
            {
                "apiVersion": "tideline.dev/v1alpha1",
                "kind": "LakeStore",
                "metadata": {"name": NAME, "namespace": self._lake.namespace},
                "spec": {"gcs": {"endpoint": self._pod.endpoint}},
            }
        )
        self._forward, address = self._lake.cluster.start_forward(
            self._lake.namespace, f"service/{NAME}", PORT
        )
        self._options = {"gcs_endpoint": address, "allow_http": "true"}

    def stop(self) -> None:
        if self._forward is not None:
            self._forward.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._forward.wait(10)

    def location(self, path: str) -> StoreLocation:
        """As this process reaches it."""
        return StoreLocation.of(f"gs://{BUCKET}/{path}", self._options)

    def land(self, path: str, rows: Sequence[Row]) -> None:
        """Put a parquet file there."""
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), buffer)
        self.location("").open().put(path, buffer.getvalue())


def unsigned_pods() -> dict[str, object]:
    """`podTemplate` of tables whose pods sign no request."""
    (container,) = QUICK_JAVA["spec"]["containers"]
    named = [{"name": name, "value": value} for name, value in UNSIGNED.items()]
    return {"spec": {"containers": [{**container, "env": [*container["env"], *named]}]}}
