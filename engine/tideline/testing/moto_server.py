"""An old moto as a server: a store that takes conditional writes, and writes whatever they say.

Its releases before 5 ignore `If-None-Match` and `If-Match` of a write. So do older versions of
many stores with the protocol of S3. It takes any credentials, and keeps objects in its memory.
"""

from __future__ import annotations

from tideline.cache_directory import cache_directory
from tideline.testing.peer_environment import only_builder, prepare_virtual_environment
from tideline.testing.s3_server import S3Process

VERSION = "4.2.14"


class MotoServer(S3Process):
    """See `S3Process`."""

    name = f"moto {VERSION}"

    def prepare(self) -> None:
        with only_builder("moto-peer"):
            self._python = prepare_virtual_environment(
                cache_directory() / "venvs" / "moto",
                (f"moto[s3]=={VERSION}", "flask", "flask-cors"),
                imports="moto.server",
            )

    def command(self) -> list[str]:
        host, port = self.address.split(":")
        return [str(self._python), "-m", "moto.server", "-H", host, "-p", port]
