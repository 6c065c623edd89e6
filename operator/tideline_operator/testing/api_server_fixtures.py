"""pytest fixtures that give tests a real Kubernetes API server.

Where its programs have not been built such tests are skipped, saying how to build them; under CI
they fail.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline_operator.kube import (
    CUSTOM_RESOURCE_DEFINITIONS,
    LAKE_CATALOGS,
    LAKE_STORES,
    LAKE_TABLES,
    NAMESPACES,
    ApiRefusedError,
    KubeApi,
)
from tideline_operator.resources.crd import custom_resource_definitions
from tideline_operator.testing.api_server import ApiServer, programs_folder
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.manifests import apply_all, manifests_in

_BUILD = "python -m e2e.build api-server"
_OPERATOR_YAML = Path(__file__).resolve().parents[3] / "charts" / "tideline" / "operator.yaml"


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """One server for the whole run, with Tideline's resource definitions and the roles of its
    accounts: sign in as OPERATOR to do only what the operator may."""
    if programs_folder() is None:
        reason = f"kube-apiserver and etcd are not built; run: {_BUILD}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with ApiServer() as server:
        install_definitions(server.api())
        install_roles(server.api())
        yield server


@pytest.fixture
def namespace(api_server: ApiServer) -> str:
    """An empty namespace of its own."""
    name = f"test-{secrets.token_hex(4)}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api_server.api().create(NAMESPACES, manifest)
    return name


def install_definitions(api: KubeApi) -> None:
    """Apply the definitions and wait until their resources are served."""
    for definition in custom_resource_definitions():
        api.apply(CUSTOM_RESOURCE_DEFINITIONS, definition)
    eventually(lambda: _is_served(api), "the resource definitions are served")


def install_roles(api: KubeApi) -> None:
    """Apply the committed manifests but for the Deployment, which nothing would run."""
    manifests = manifests_in(_OPERATOR_YAML.read_text("utf-8"))
    apply_all(api, [item for item in manifests if item["kind"] != "Deployment"])


def _is_served(api: KubeApi) -> bool:
    try:
        api.list(LAKE_STORES)
        api.list(LAKE_TABLES)
        api.list(LAKE_CATALOGS)
    except ApiRefusedError as error:
        if error.is_missing:
            return False
        raise
    return True
