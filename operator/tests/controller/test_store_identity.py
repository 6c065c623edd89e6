"""LakeStores with a web identity: the operator reads as the pods of a table's namespace do.

The tokens are those of a real API server, which a real MinIO trusts as its issuer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.clock import SystemClock
from tideline.errors import StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.testing.minio_server import MinioServer
from tideline.testing.openid_issuer import DISCOVERY_PATH, role_arn, trusting
from tideline_operator.controller.connections import Connections, StoreAccess
from tideline_operator.controller.endpoints import Endpoints
from tideline_operator.controller.namespace_access import NamespaceAccess
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.kube import ApiRefusedError
from tideline_operator.resources.lake_store import LakeStoreSpec, StoreWebIdentity
from tideline_operator.testing.api_server import OPERATOR, ApiServer

pytestmark = [pytest.mark.api_server, pytest.mark.minio]

ACCOUNT, AUDIENCE = "tideline-engine", "tideline"
DISCOVERY = "system:service-account-issuer-discovery"


@pytest.fixture(scope="module")
def trusting_minio(api_server: ApiServer) -> Iterator[MinioServer]:
    """A MinIO that trusts the API server's tokens, whose keys anybody may read."""
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    binding = {
        "metadata": {"name": "issuer-discovery"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": DISCOVERY,
        },
        "subjects": [
            {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Group",
                "name": "system:unauthenticated",
            }
        ],
    }
    assert api_server.request("POST", path, binding).status == 201
    settings = trusting(f"{api_server.url}{DISCOVERY_PATH}", AUDIENCE)
    with MinioServer(settings, authorities=api_server.authority.read_bytes()) as server:
        yield server


def spec(server: MinioServer, audience: str = AUDIENCE) -> LakeStoreSpec:
    identity = StoreWebIdentity(
        role_arn=role_arn(AUDIENCE), audience=audience, sts_endpoint=f"{server.endpoint}/"
    )
    return LakeStoreSpec(endpoint=server.endpoint, web_identity=identity)


def connections_at(server: ApiServer) -> Connections:
    clock = SystemClock()
    endpoints, access = Endpoints(clock), StoreAccess(egress=None)
    return Connections(server.api(OPERATOR), clock, ACCOUNT, endpoints, lambda: None, access)


def test_the_operator_reads_with_a_token_of_the_namespace(
    api_server: ApiServer, namespace: str, trusting_minio: MinioServer
) -> None:
    NamespaceAccess(api_server.api(), SystemClock(), ACCOUNT, "tideline-system").ensure(namespace)
    connections = connections_at(api_server)
    connection = connections.connect(namespace, [spec(trusting_minio)])
    assert connections.connect(namespace, [spec(trusting_minio)]) is connection
    options = trusting_minio.storage_options()
    location = StoreLocation.of(f"s3://{trusting_minio.create_bucket()}/table", options)
    store = location.open(connection)
    store.put("x", b"1")
    assert store.get("x") == b"1"


def test_a_token_for_somebody_else_is_refused(
    api_server: ApiServer, namespace: str, trusting_minio: MinioServer
) -> None:
    NamespaceAccess(api_server.api(), SystemClock(), ACCOUNT, "tideline-system").ensure(namespace)
    connections = connections_at(api_server)
    connection = connections.connect(namespace, [spec(trusting_minio, "somebody-else")])
    options = trusting_minio.storage_options()
    location = StoreLocation.of(f"s3://{trusting_minio.create_bucket()}/table", options)
    with pytest.raises(StorageUnavailableError, match=r"refuses the token .*audience"):
        location.open(connection).get("x")


def test_without_the_account_there_is_no_token(
    api_server: ApiServer, namespace: str, trusting_minio: MinioServer
) -> None:
    connections = connections_at(api_server)
    connection = connections.connect(namespace, [spec(trusting_minio)])
    location = StoreLocation.of("s3://bucket/table", trusting_minio.storage_options())
    words = f"no token of ServiceAccount {ACCOUNT} in namespace {namespace}.*not found"
    with pytest.raises(StorageUnavailableError, match=words):
        location.open(connection).get("x")


def test_the_operator_gets_tokens_of_no_other_account(
    api_server: ApiServer, namespace: str
) -> None:
    with pytest.raises(ApiRefusedError, match="forbidden"):
        api_server.api(OPERATOR).request_token("default", namespace, AUDIENCE, 600)


def test_one_table_has_one_identity(api_server: ApiServer, trusting_minio: MinioServer) -> None:
    connections = connections_at(api_server)
    stores = [spec(trusting_minio), LakeStoreSpec(endpoint=trusting_minio.endpoint)]
    with pytest.raises(SecretProblemError, match=r"the same spec\.webIdentity"):
        connections.connect("lake", stores)
