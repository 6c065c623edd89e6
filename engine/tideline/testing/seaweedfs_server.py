"""SeaweedFS, another store with the protocol of S3, as one process: master, volume server, filer
and gateway. It is published as a Go module."""

from __future__ import annotations

import json

from tideline.cache_directory import cache_directory
from tideline.testing.free_port import free_port
from tideline.testing.go_toolchain import build_program
from tideline.testing.s3_server import S3Process

PACKAGE = "github.com/seaweedfs/seaweedfs/weed"
VERSION = "v0.0.0-20261109003541-7506e5f91cd6"
_PARTS = ("master", "volume", "filer", "s3")


class SeaweedServer(S3Process):
    """As it is to be run (docs/stores.md), or with what it does `by_default`: a backslash in a name
    becomes a slash, and a write creates its bucket."""

    name = f"SeaweedFS {VERSION}"

    def __init__(self, *, by_default: bool = False) -> None:
        super().__init__()
        self._as_s3 = {} if by_default else {"allowBackslashInKey": True, "autoCreateBucket": False}
        self._binary = cache_directory() / "bin" / f"seaweedfs-{VERSION}"

    def prepare(self) -> None:
        build_program(PACKAGE, VERSION, self._binary)

    def command(self) -> list[str]:
        data, identities = self.folder / "data", self.folder / "identities.json"
        data.mkdir(exist_ok=True)
        keys = {"accessKey": self.access_key, "secretKey": self.secret_key}
        identity = {"name": "tests", "credentials": [keys], "actions": ["Admin"]}
        identities.write_text(json.dumps({"identities": [identity]}))
        settings = {
            **{f"{part}.port{grpc}": free_port() for part in _PARTS for grpc in ("", ".grpc")},
            **{f"s3.{name}": str(switch).lower() for name, switch in self._as_s3.items()},
            "s3.port": self._port,
            "s3.config": identities,
            "dir": data,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.volumeSizeLimitMB": 64,
            "volume.max": 200,
        }
        flags = [f"-{name}={value}" for name, value in settings.items()]
        return [str(self._binary), "server", "-s3", "-filer", *flags]
