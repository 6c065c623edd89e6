"""An old moto as a server: a store that takes conditional writes, and writes whatever they say.

Its releases before 5 ignore `If-None-Match` and `If-Match` of a write. So do older versions of
many stores with the protocol of S3.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tideline.cache_directory import cache_directory
from tideline.testing.free_port import free_port
from tideline.testing.peer_environment import only_builder, prepare_virtual_environment
from tideline.testing.s3_server import S3Server
from tideline.testing.server_process import ServerProcess

VERSION = "4.2.14"


def prepare() -> Path:
    """The interpreter with it, installed if need be. Raises PeerUnavailableError."""
    folder = cache_directory() / "venvs" / "moto"
    with only_builder("moto-peer"):
        return prepare_virtual_environment(
            folder, (f"moto[s3]=={VERSION}", "flask", "flask-cors"), imports="moto.server"
        )


class MotoServer(S3Server):
    """A server with one empty bucket in its memory, for the length of a `with` block.

    It takes any credentials.
    """

    def __init__(self, python: Path) -> None:
        super().__init__()
        self._python = python
        self._folder = tempfile.TemporaryDirectory(prefix="tideline-moto-")
        log = Path(self._folder.name) / "log"
        self._process = ServerProcess("moto", self._command, log, self._makes_bucket)

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._folder.cleanup()

    def _command(self) -> list[str]:
        self._port = free_port()
        where = ["-H", "127.0.0.1", "-p", str(self._port)]
        return [str(self._python), "-m", "moto.server", *where]
