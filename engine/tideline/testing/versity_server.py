"""VersityGW, a gateway that serves a folder by the protocol of S3. It is published as a Go module.

Before release 1.8 it checks the condition of a write, and takes no lock from there to the write.
"""

from __future__ import annotations

from collections.abc import Mapping

from tideline.cache_directory import cache_directory
from tideline.testing.go_toolchain import build_program
from tideline.testing.s3_server import S3Process

PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
WITHOUT_LOCK = "v1.7.0"


class VersityServer(S3Process):
    """One gateway; `beside` is another one that serves the same folder. Without `locks_files` it
    excludes the writers of its own process alone."""

    name = "VersityGW"

    def __init__(
        self,
        version: str = VERSION,
        *,
        beside: VersityServer | None = None,
        locks_files: bool = True,
    ) -> None:
        super().__init__()
        self._version = version
        self._binary = cache_directory() / "bin" / f"versitygw-{version}"
        self._flags = [] if locks_files else ["--disable-object-lock-file"]
        self._data = self.folder / "data"
        if beside is not None:
            self.access_key, self.secret_key = beside.access_key, beside.secret_key
            self._data = beside._data

    def prepare(self) -> None:
        build_program(PACKAGE, self._version, self._binary)

    def command(self) -> list[str]:
        self._data.mkdir(exist_ok=True)
        return [str(self._binary), "--port", self.address, "posix", *self._flags, str(self._data)]

    def variables(self) -> Mapping[str, str]:
        return {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
