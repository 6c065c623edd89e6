"""Azurite, Microsoft's emulator of Azure Blob Storage, on the loopback interface, for tests.

    python -m tideline.testing.azurite_server build    install it once, into the user's cache
    python -m tideline.testing.azurite_server start    run it until interrupted

It comes from npm and needs Node. Objects are in its memory alone.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import http.client
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlencode

from tideline.cache_directory import cache_directory
from tideline.testing.process_server import ProcessServer

VERSION = "3.37.0"
ACCOUNT = "tideacct"
BUILD = "python -m tideline.testing.azurite_server build"
_API_VERSION = "2023-11-03"


def program_path() -> Path:
    """Where `build` puts it."""
    return cache_directory() / f"azurite-{VERSION}" / "node_modules" / ".bin" / "azurite-blob"


def build() -> Path:
    """Install it unless it is there already; a minute or two. Raises CalledProcessError."""
    target = program_path()
    if target.exists():
        return target
    folder = target.parents[2]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        subprocess.run([*command, "--prefix", made, f"azurite@{VERSION}"], check=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(made, folder, symlinks=True)
    return target


class AzuriteServer(ProcessServer):
    """A server with one account and a random key, for the length of a `with` block.

    Raises FileNotFoundError when it has not been installed.
    """

    name = "Azurite"

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__(host)
        self.account_key = base64.b64encode(secrets.token_bytes(32)).decode()

    def prepare(self) -> None:
        if not program_path().exists():
            raise FileNotFoundError(program_path())

    def command(self) -> list[str]:
        host = ["--blobHost", self._host, "--blobPort", str(self._port)]
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [str(program_path()), "--inMemoryPersistence", *quiet, *host]

    def variables(self) -> Mapping[str, str]:
        return {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{self.account_key}"}

    @property
    def endpoint(self) -> str:
        """The URL of the account."""
        return f"http://{self.address}/{ACCOUNT}"

    def environment(self) -> Mapping[str, str]:
        """The credentials, as clients look for them."""
        return {"AZURE_STORAGE_ACCOUNT_KEY": self.account_key}

    def signature(self, *, lasts_s: float = 3600.0) -> str:
        """A shared access signature of the account, for everything in its containers."""
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + lasts_s))
        given = {"sp": "rwdlac", "ss": "b", "srt": "sco", "st": "", "se": ends, "sip": "",
                 "spr": "https,http", "sv": _API_VERSION, "ses": ""}  # fmt: skip
        signed = "".join(f"{value}\n" for value in (ACCOUNT, *given.values()))
        shown = {name: value for name, value in given.items() if value}
        return urlencode({**shown, "sig": self._signed(signed)})

    def storage_options(self) -> Mapping[str, str]:
        """What `StoreLocation.of` needs to reach this server."""
        return {"azure_endpoint": self.endpoint, "allow_http": "true"}

    def uri(self, container: str) -> str:
        """The location of a container."""
        return f"abfss://{container}@{ACCOUNT}.dfs.core.windows.net"

    def create_container(self, name: str | None = None) -> str:
        """Create a container, by default one with a new name; returns the name."""
        container = name or f"tideline-{secrets.token_hex(6)}"
        path = f"/{ACCOUNT}/{container}"
        shown = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API_VERSION}
        lines = "".join(f"{header}:{value}\n" for header, value in shown.items())
        signed = "PUT\n" + "\n" * 11 + f"{lines}/{ACCOUNT}{path}\nrestype:container"
        authorization = f"SharedKey {ACCOUNT}:{self._signed(signed)}"
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {**shown, "Authorization": authorization, "Content-Length": "0"}
        connection.request("PUT", f"{path}?restype=container", headers=headers)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.CREATED:
            raise RuntimeError(f"Azurite does not create {container}: {answer.status}")
        connection.close()
        return container

    def _signed(self, text: str) -> str:
        key = base64.b64decode(self.account_key)
        return base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("build", "start"))
    if parser.parse_args().command == "build":
        print(build())
        return
    build()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with AzuriteServer() as server:
        container = server.create_container("lake")
        here = {
            **server.environment(),
            "TIDELINE_AZURE_ENDPOINT": server.endpoint,
            "TIDELINE_ALLOW_HTTP": "true",
        }
        print(f"# Azurite runs until Ctrl-C: {server.uri(container)}")
        for name, value in here.items():
            print(f"export {name}={value}")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
