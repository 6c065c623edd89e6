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
    ROLE_BINDINGS,
    ApiRefusedError,
    KubeApi,
)
from tideline_operator.testing.api_server import ApiServer, programs_folder
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.manifests import apply_all, manifests_in
from tools.crds import custom_resource_definitions

_BUILD = "python -m e2e.build api-server"
_ROOT = Path(__file__).resolve().parents[3]
_OPERATOR_YAML = _ROOT / "charts" / "tideline" / "operator.yaml"
_ACCESS_YAML = _ROOT / "examples" / "kubernetes" / "operator-access.yaml"


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
    """An empty namespace of its own that lets the operator in."""
    name = f"test-{secrets.token_hex(4)}"
    make_namespace(api_server.api(), name)
    return name


def make_namespace(api: KubeApi, name: str, *, is_open: bool = True) -> None:
    """A namespace; `is_open` lets the operator in, as examples/kubernetes does."""
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    api.create(NAMESPACES, manifest)
    if is_open:
        open_namespace(api, name)


def open_namespace(api: KubeApi, name: str) -> None:
    """Let the operator in, as the namespace's administrator does."""
    (binding,) = manifests_in(_ACCESS_YAML.read_text("utf-8"))
    api.create(ROLE_BINDINGS, binding, name)


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
