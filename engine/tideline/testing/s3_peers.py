"""pytest fixtures that give tests a place on other stores with the protocol of S3 beside MinIO.

They are built or installed when they are first asked for, and serve slow tests and storms alone.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache, partial

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.garage_server import GarageServer
from tideline.testing.moto_server import MotoServer
from tideline.testing.peer_environment import PeerUnavailableError
from tideline.testing.s3_server import BUCKET, S3Process
from tideline.testing.s3proxy_server import S3ProxyServer
from tideline.testing.seaweedfs_server import SeaweedServer
from tideline.testing.versity_server import WITHOUT_LOCK, VersityServer

PEERS: Mapping[str, Callable[[], S3Process]] = {
    "seaweedfs": SeaweedServer,
    "versitygw": VersityServer,
}
"""Qualified: the contract, `check-store` and a storm run on each."""
OTHERS: Mapping[str, Callable[[], S3Process]] = {
    "seaweedfs-by-default": partial(SeaweedServer, by_default=True),
    "versitygw-without-lock": partial(VersityServer, WITHOUT_LOCK),
    "garage": GarageServer,
    "s3proxy": S3ProxyServer,
    "s3proxy-over-azure": partial(S3ProxyServer, over_azure=True),
    "moto": MotoServer,
}
LONG_TO_COMPILE = frozenset({"garage"})
"""Passed over where they were not compiled on purpose, under CI as well."""

PlaceAtPeer = Callable[[str], StoreLocation]


@pytest.fixture(scope="session")
def s3_peers() -> Iterator[Callable[[str], S3Process]]:
    """Servers by their names, each started once for the whole run. What cannot be built is skipped;
    under CI it fails unless it is `LONG_TO_COMPILE`."""
    with ExitStack() as running:

        @cache
        def started(name: str) -> S3Process | str:
            try:
                return running.enter_context({**PEERS, **OTHERS}[name]())
            except (OSError, subprocess.CalledProcessError, PeerUnavailableError) as failure:
                return f"{name} cannot be built: {failure}"

        def served(name: str) -> S3Process:
            server = started(name)
            if isinstance(server, str):
                is_needed = os.environ.get("CI") and name not in LONG_TO_COMPILE
                (pytest.fail if is_needed else pytest.skip)(server)
            return server

        yield served


@pytest.fixture
def place_at_peer(
    s3_peers: Callable[[str], S3Process], monkeypatch: pytest.MonkeyPatch
) -> PlaceAtPeer:
    """An empty prefix of its own at the server of a name; credentials in the environment, for the
    length of the test."""

    def place(name: str) -> StoreLocation:
        server = s3_peers(name)
        for variable, value in server.environment().items():
            monkeypatch.setenv(variable, value)
        uri = f"s3://{BUCKET}/{secrets.token_hex(8)}/table"
        return StoreLocation.of(uri, server.storage_options())

    return place
