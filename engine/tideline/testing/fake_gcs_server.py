"""fake-gcs-server, an emulator of Google Cloud Storage's JSON API, on the loopback interface. It is
published as a Go module."""

from __future__ import annotations

import http.client
import json
import secrets
import socket
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tideline.cache_directory import cache_directory
from tideline.testing.free_port import free_port
from tideline.testing.go_toolchain import build_program
from tideline.testing.server_process import ServerProcess

PACKAGE = "github.com/fsouza/fake-gcs-server"
VERSION = "v1.56.1"


class FakeGcsServer:
    """Objects are in its memory, for the length of a `with` block. It is built if need be."""

    def __init__(self) -> None:
        self._port = free_port()
        self._binary = cache_directory() / "bin" / f"fake-gcs-server-{VERSION}"
        self._folder = tempfile.TemporaryDirectory(prefix="tideline-gcs-")
        log = Path(self._folder.name) / "log"
        self._process = ServerProcess("fake-gcs-server", self._command, log, self._answers, {})

    def __enter__(self) -> Self:
        build_program(PACKAGE, VERSION, self._binary)
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

    @property
    def address(self) -> str:
        """host:port"""
        return f"127.0.0.1:{self._port}"

    def storage_options(self) -> Mapping[str, str]:
        """What `StoreLocation.of` needs to reach this server."""
        return {"gcs_endpoint": f"http://{self.address}", "allow_http": "true"}

    def create_bucket(self) -> str:
        """Create a bucket; returns its name."""
        name = f"tideline-{secrets.token_hex(6)}"
        self._post("/storage/v1/b", json.dumps({"name": name}).encode())
        return name

    def put(self, bucket: str, name: str, content: bytes) -> None:
        """Create an object."""
        place = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        self._post(place, content)

    def _post(self, path: str, body: bytes) -> None:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        connection.request("POST", path, body)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"fake-gcs-server answers {answer.status} to {path}")
        connection.close()

    def _command(self) -> list[str]:
        flags = {"scheme": "http", "host": "127.0.0.1", "port": self._port,
                 "public-host": self.address, "backend": "memory"}  # fmt: skip
        given = [part for name, value in flags.items() for part in (f"-{name}", str(value))]
        return [str(self._binary), *given]

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False
