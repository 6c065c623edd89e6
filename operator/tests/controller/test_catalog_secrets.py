"""Credentials of catalogs: each namespace has its own, and a rotated Secret counts."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline.secret_values import masked
from tideline.testing.fake_clock import FakeClock
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.connections import FRESH_S
from tideline_operator.controller.secret_variables import SecretVariables
from tideline_operator.resources.iceberg import CatalogConnection, CatalogCredentials, CatalogType
from tideline_operator.testing.scripted_api import ScriptedServer

CATALOG = CatalogConnection(
    type=CatalogType.REST,
    name="lake",
    uri="https://catalog.example.com",
    credentials=CatalogCredentials(secret_name="catalog"),
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


def secret(namespace: str, token: str, version: str) -> tuple[int, dict[str, Any]]:
    """The Secret `catalog` of a namespace, as an API server answers."""
    return 200, {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "catalog", "namespace": namespace, "resourceVersion": version},
        "data": {"PYICEBERG_CATALOG__LAKE__TOKEN": base64.b64encode(token.encode()).decode()},
    }


def test_secrets_of_one_name_in_two_namespaces_are_two(
    server: ScriptedServer, tmp_path: Path
) -> None:
    secrets = CatalogSecrets(SecretVariables(server.api(tmp_path), FakeClock()))
    server.script += [secret("sea", "of-the-sea", "1"), secret("lake", "of-the-lake", "2")]

    assert secrets.credentials("sea", CATALOG) == {"token": "of-the-sea"}
    assert secrets.credentials("lake", CATALOG) == {"token": "of-the-lake"}
    assert masked("refused: of-the-lake") == "refused: ***"
    assert secrets.versions("sea", CATALOG) == ("1",)
    assert secrets.versions("lake", CATALOG) == ("2",)
    assert [path for _, path, _, _ in server.seen] == [
        "/api/v1/namespaces/sea/secrets/catalog",
        "/api/v1/namespaces/lake/secrets/catalog",
    ]


def test_a_rotated_secret_counts_after_a_short_time(server: ScriptedServer, tmp_path: Path) -> None:
    clock = FakeClock()
    secrets = CatalogSecrets(SecretVariables(server.api(tmp_path), clock))
    server.script += [secret("lake", "first-token", "1"), secret("lake", "second-token", "2")]

    assert secrets.credentials("lake", CATALOG) == {"token": "first-token"}
    clock.advance(FRESH_S - 1)
    assert secrets.credentials("lake", CATALOG) == {"token": "first-token"}
    clock.advance(2)
    assert secrets.credentials("lake", CATALOG) == {"token": "second-token"}
    assert secrets.versions("lake", CATALOG) == ("2",)
