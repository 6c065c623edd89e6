"""Garage, a store with the protocol of S3, as one node. It is published as a crate of Rust.

    python -m tideline.testing.garage_server    compile it, in ten minutes

Tests pass it over until then.

It answers a write as if it had no condition: nodes agree on what is newest, not on who was first.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.testing.free_port import free_port
from tideline.testing.go_toolchain import publish
from tideline.testing.peer_environment import PeerUnavailableError
from tideline.testing.s3_server import S3Process

VERSION = "2.5.0"
_SETTINGS = """\
metadata_dir = "{folder}/meta"
data_dir = "{folder}/data"
db_engine = "sqlite"
replication_factor = 1
rpc_bind_addr = "127.0.0.1:{rpc_port}"
rpc_public_addr = "127.0.0.1:{rpc_port}"
rpc_secret = "{rpc_secret}"

[s3_api]
s3_region = "us-east-1"
api_bind_addr = "{address}"
"""


class GarageServer(S3Process):
    """See `S3Process`."""

    name = f"Garage {VERSION}"

    def __init__(self) -> None:
        super().__init__()
        self.access_key, self.secret_key = f"GK{secrets.token_hex(12)}", secrets.token_hex(32)

    def prepare(self) -> None:
        if not binary().exists():
            raise PeerUnavailableError("compile it: python -m tideline.testing.garage_server")

    def command(self) -> list[str]:
        settings = self.folder / "garage.toml"
        settings.write_text(
            _SETTINGS.format(
                folder=self.folder,
                rpc_port=free_port(),
                rpc_secret=secrets.token_hex(32),
                address=self.address,
            )
        )
        alone = ("--single-node", "--default-access-key")
        return [str(binary()), "--config", str(settings), "server", *alone]

    def variables(self) -> Mapping[str, str]:
        return {
            "GARAGE_DEFAULT_ACCESS_KEY": self.access_key,
            "GARAGE_DEFAULT_SECRET_KEY": self.secret_key,
        }


def binary() -> Path:
    """Where it is once it was compiled."""
    return cache_directory() / "bin" / f"garage-{VERSION}"


def build() -> None:
    """Compile it unless it is there. Raises CalledProcessError, FileNotFoundError without cargo."""
    if binary().exists():
        return
    cargo = shutil.which("cargo") or "cargo"
    with tempfile.TemporaryDirectory(dir=cache_directory()) as folder:
        chosen = ("--version", VERSION, "--locked", "--root", folder)
        subprocess.run([cargo, "install", "garage", *chosen], check=True)
        publish(Path(folder) / "bin" / "garage", binary())


if __name__ == "__main__":
    build()
