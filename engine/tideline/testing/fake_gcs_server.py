"""fake-gcs-server, an emulator of Google Cloud Storage's JSON API, on the loopback interface. It is
published as a Go module."""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Mapping
from urllib.parse import quote

from tideline.cache_directory import cache_directory
from tideline.testing.go_toolchain import build_program
from tideline.testing.process_server import ProcessServer

PACKAGE = "github.com/fsouza/fake-gcs-server"
VERSION = "v1.56.1"


class FakeGcsServer(ProcessServer):
    """Objects are in its memory, for the length of a `with` block. It is built if need be."""

    name = "fake-gcs-server"

    def __init__(self) -> None:
        super().__init__()
        self._binary = cache_directory() / "bin" / f"fake-gcs-server-{VERSION}"

    def prepare(self) -> None:
        build_program(PACKAGE, VERSION, self._binary)

    def command(self) -> list[str]:
        flags = {"scheme": "http", "host": self._host, "port": self._port,
                 "public-host": self.address, "backend": "memory"}  # fmt: skip
        given = [part for name, value in flags.items() for part in (f"-{name}", str(value))]
        return [str(self._binary), *given]

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
