"""Secrets of catalogs: each namespace's own, read again in time, masked in what people read."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest

from tideline.secret_values import masked
from tideline.testing.fake_clock import FakeClock
from tideline_operator.api_objects import NAMESPACES, SECRETS
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.connections import FRESH_S
from tideline_operator.resources.iceberg import (
    CatalogConnection,
    CatalogCredentials,
    CatalogType,
)
from tideline_operator.testing.api_server import ApiServer

pytestmark = pytest.mark.api_server
CATALOG = CatalogConnection(
    type=CatalogType.REST, name="lake", credentials=CatalogCredentials(secret_name="catalog")
)


def secret(token: str) -> dict[str, Any]:
    data = {"PYICEBERG_CATALOG__LAKE__TOKEN": base64.b64encode(token.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "catalog"}, "data": data}


def test_a_secret_is_that_of_its_namespace(api_server: ApiServer, namespace: str) -> None:
    api, other = api_server.api(), f"other-{uuid.uuid4().hex[:8]}"
    api.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}, None
    )
    api.create(SECRETS, secret("token-of-one"), namespace)
    secrets = CatalogSecrets(api, FakeClock())
    assert secrets.credentials(namespace, CATALOG) == {"token": "token-of-one"}
    with pytest.raises(Exception, match=f"no Secret 'catalog' in namespace {other}"):
        secrets.credentials(other, CATALOG)
    api.create(SECRETS, secret("token-of-another"), other)
    assert secrets.credentials(other, CATALOG) == {"token": "token-of-another"}
    assert secrets.credentials(namespace, CATALOG) == {"token": "token-of-one"}
    assert masked("said token-of-another") == "said ***"


def test_a_secret_that_was_rotated_is_read_in_time(api_server: ApiServer, namespace: str) -> None:
    api, clock = api_server.api(), FakeClock()
    api.create(SECRETS, secret("former-token"), namespace)
    secrets = CatalogSecrets(api, clock)
    assert secrets.credentials(namespace, CATALOG) == {"token": "former-token"}
    before = secrets.versions(namespace, CATALOG)
    api.patch(SECRETS, "catalog", {"data": secret("newer-token")["data"]}, namespace)
    assert secrets.credentials(namespace, CATALOG) == {"token": "former-token"}
    clock.advance(FRESH_S + 1)
    assert secrets.credentials(namespace, CATALOG) == {"token": "newer-token"}
    assert secrets.versions(namespace, CATALOG) != before
