"""pytest fixtures that give tests a place on Google's and on Azure's storage, emulated."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.azurite_server import BUILD, AzuriteServer, build, program_path
from tideline.testing.gcs_server import GcsServer

CONTAINER = "lake"
_TOKEN = "some-bearer-token-of-google"


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """One server for the whole run, with the bucket `lake`."""
    with GcsServer(CONTAINER, token=_TOKEN) as server:
        yield server


@pytest.fixture
def gcs_location(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> StoreLocation:
    """An empty prefix of its own; credentials in the environment, for the length of the test."""
    for name, value in gcs_server.environment().items():
        monkeypatch.setenv(name, value)
    uri = f"gs://{CONTAINER}/{secrets.token_hex(8)}/table"
    return StoreLocation.of(uri, gcs_server.storage_options())


@pytest.fixture(scope="session")
def azurite_server() -> Iterator[AzuriteServer]:
    """One server for the whole run, with the container `lake`.

    Without it such tests are skipped, saying how to install it; under CI it is installed.
    """
    if not program_path().exists():
        if not os.environ.get("CI") or shutil.which("npm") is None:
            pytest.skip(f"Azurite is not installed; run: {BUILD}")
        build()
    with AzuriteServer() as server:
        server.create_container(CONTAINER)
        yield server


@pytest.fixture
def azure_location(azurite_server: AzuriteServer, monkeypatch: pytest.MonkeyPatch) -> StoreLocation:
    """An empty prefix of its own; credentials in the environment, for the length of the test."""
    for name, value in azurite_server.environment().items():
        monkeypatch.setenv(name, value)
    uri = f"{azurite_server.uri(CONTAINER)}/{secrets.token_hex(8)}/table"
    return StoreLocation.of(uri, azurite_server.storage_options())
