"""A current moto as a server of Glue: a peer for requests. It looks at no `VersionId`."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.testing.free_port import free_port
from tideline.testing.peer_environment import only_builder, prepare_virtual_environment
from tideline.testing.server_process import ServerProcess

VERSION = "5.2.5"


@contextmanager
def moto_of_glue() -> Iterator[str]:
    """Its URL, as long as it runs; installed if need be. Raises PeerUnavailableError."""
    folder = cache_directory() / "venvs" / "moto-glue"
    with only_builder("moto-glue-peer"):
        required = (f"moto[glue]=={VERSION}", "flask", "flask-cors")
        python = prepare_virtual_environment(folder, required, imports="moto.server")
    port = free_port()

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    command = [str(python), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.TemporaryDirectory(prefix="tideline-moto-") as logs:
        process = ServerProcess("moto", lambda: command, Path(logs) / "log", answers)
        process.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
