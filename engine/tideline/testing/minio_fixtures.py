"""pytest fixtures that give tests a place on a real MinIO.

Without the server binary such tests are skipped, saying how to build it; under CI they fail.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from tideline.storage.location import StoreLocation
from tideline.testing.minio_server import MinioServer, binary_path

_BUILD = "python -m tideline.testing.minio_server build"


@pytest.fixture(scope="session")
def minio_server() -> Iterator[MinioServer]:
    """One server for the whole run."""
    if not binary_path().exists():
        reason = f"MinIO is not built; run: {_BUILD}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with MinioServer() as server:
        yield server


@pytest.fixture(scope="session")
def minio_bucket(minio_server: MinioServer) -> str:
    """One bucket for the whole run."""
    return minio_server.create_bucket()


@pytest.fixture
def minio_credentials(minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's credentials in the environment, for the length of the test."""
    for name, value in minio_server.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_location(
    minio_server: MinioServer,
    minio_bucket: str,
    minio_credentials: None,  # noqa: ARG001
) -> StoreLocation:
    """An empty prefix of its own."""
    uri = f"s3://{minio_bucket}/{secrets.token_hex(8)}/table"
    return StoreLocation.of(uri, minio_server.storage_options())
