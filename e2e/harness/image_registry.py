"""A registry of images on this machine's loopback, and the same one on a node's.

Both processes serve one folder under one address, so that what is pushed here is pulled there by
the name that a release has in its files.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.build.versions import tools_folder
from e2e.harness.cluster import Cluster
from e2e.node.cluster import first_process

_READY_TIMEOUT_S = 20.0
_CONFIGURATION = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {data}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
log: {{level: warn}}
"""


class ImageRegistry:
    """Where it is, as in the name of an image: `127.0.0.1:PORT`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _free_port()
        self.address = f"127.0.0.1:{self._port}"
        configuration = _CONFIGURATION.format(data=folder / "data", port=self._port)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "registry.yaml").write_text(configuration)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Here, for the length of a block."""
        with self._served(()):
            yield

    @contextmanager
    def served_on_node(self, cluster: Cluster) -> Iterator[None]:
        """On the node's loopback as well."""
        with self._served(("nsenter", f"--target={first_process(cluster.name)}", "--net")):
            yield

    @contextmanager
    def _served(self, inside: Sequence[str]) -> Iterator[None]:
        command = [*inside, str(tools_folder() / "registry"), "serve", "registry.yaml"]
        log = self._folder / f"registry-{'node' if inside else 'here'}.log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdout=written,
                stderr=subprocess.STDOUT,
                # It would look for a collector otherwise.
                env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
            )
        try:
            self._wait(inside, process, log)
            yield
        finally:
            process.terminate()
            process.wait()

    def _wait(self, inside: Sequence[str], process: subprocess.Popen[bytes], log: Path) -> None:
        knock = f"exec 3<>/dev/tcp/127.0.0.1/{self._port}"
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while subprocess.run([*inside, "bash", "-c", knock], capture_output=True).returncode:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, f"no registry at {self.address}"
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
