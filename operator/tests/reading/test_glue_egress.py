"""Glue catalogs that tenants name: with their own credentials, through the egress proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.remote.connection import Audience, Keyless, SecretKeys, StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.egress_case import running_proxy
from tideline.testing.glue_server import GlueServer
from tideline_operator.controller.catalog_secrets import catalog_properties
from tideline_operator.reading.access import Access

pytest.importorskip("pyiceberg")

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_search import list_tables

ADDRESSES = {
    "metadata.example": "169.254.169.254",
    "inside.example": "10.0.0.9",
    "glue.example": "127.0.0.1",
}
AMAZON = "https://s3.eu-west-1.amazonaws.com (eu-west-1)"
SECRET = {
    "PYICEBERG_CATALOG__LAKE__GLUE__ACCESS_KEY_ID": "of-the-secret",
    "PYICEBERG_CATALOG__LAKE__GLUE__SECRET_ACCESS_KEY": "secret-of-the-secret",
    "PYICEBERG_CATALOG__LAKE__GLUE__REGION": "eu-west-1",
}


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    with running_proxy(ADDRESSES) as running:
        yield running


@pytest.fixture(autouse=True)
def operators_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operator has itself: nothing of it counts."""
    for name, text in {
        "AWS_ACCESS_KEY_ID": "of-the-operator",
        "AWS_SECRET_ACCESS_KEY": "secret-of-the-operator",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_GLUE": "http://127.0.0.1:9",
        "PYICEBERG_CATALOG__LAKE__GLUE__ACCESS_KEY_ID": "of-the-operator",
        "NO_PROXY": "*",
    }.items():
        monkeypatch.setenv(name, text)


def access(proxy: EgressProxy, connection: StoreConnection | None = None) -> Access:
    return Access(connection, egress=proxy.of("lake"), catalog_server="catalog x")


def connected(
    credentials: SecretKeys | Keyless, service: str = AMAZON, scheme: str = "s3"
) -> StoreConnection:
    audience = Audience(frozenset({service}))
    return StoreConnection(credentials, scheme=scheme, audience=audience)


@pytest.mark.parametrize("host", ["metadata.example", "inside.example", "169.254.169.254"])
@pytest.mark.parametrize("by", ["uri", "glue.endpoint", "secret"])
def test_no_address_leads_into_the_cluster_or_to_a_metadata_service(
    proxy: EgressProxy, host: str, by: str
) -> None:
    given = {"type": "glue"}
    secret = dict(SECRET)
    if by == "secret":
        secret["PYICEBERG_CATALOG__LAKE__GLUE__ENDPOINT"] = f"http://{host}"
    else:
        given[by] = f"http://{host}"
    reaching = access(proxy)
    with pytest.raises(StorageUnavailableError, match=r"169\.254\.169\.254|10\.0\.0\.9") as caught:
        opened = open_catalog(
            "lake",
            given,
            credentials=catalog_properties("lake", secret),
            access=reaching.catalog_access,
            timeout_s=2,
        )
        opened.load_table("shop.orders")
    assert "secret-of" not in str(caught.value)


def test_a_request_is_signed_by_the_tenant_alone(proxy: EgressProxy) -> None:
    own = S3Credentials("of-the-store", "secret-of-the-store")
    with GlueServer() as server:
        uri = server.url.replace("127.0.0.1", "glue.example")
        given = {"type": "glue", "uri": uri}

        def signer(connection: StoreConnection | None, secret: dict[str, str]) -> str:
            opened = open_catalog(
                "lake",
                given,
                credentials=catalog_properties("lake", secret),
                access=access(proxy, connection).catalog_access,
            )
            assert list_tables(opened) == ()
            headers = server.received[-1].headers
            assert headers["host"] == uri.removeprefix("http://")
            return headers["authorization"].split("Credential=")[1].split("/")[0]

        assert signer(None, SECRET) == "of-the-secret"
        assert signer(connected(own), SECRET) == "of-the-secret"
        alone = {name: text for name, text in SECRET.items() if "REGION" in name}
        assert signer(connected(own), alone) == "of-the-store"
        count = len(server.received)
        for connection in (
            None,
            connected(Keyless.AMBIENT),
            connected(Keyless.ANONYMOUS),
            connected(own, "http://minio:9000 (us-east-1)"),
            connected(own, "https://s3.eu-west-1.amazonaws.com.evil.example (eu-west-1)"),
            connected(own, scheme="gs"),
            StoreConnection(own),
        ):
            with pytest.raises(ConfigError, match=r"GLUE__ACCESS_KEY_ID and .* in the catalog's"):
                signer(connection, alone)
        with pytest.raises(TidelineError, match="region"):
            signer(connected(own), {})
        assert len(server.received) == count
        assert "operator" not in str(server.received)


def test_a_secret_names_no_profile_and_no_program(proxy: EgressProxy) -> None:
    """Profiles are files of the operator's machine."""
    secret = {
        "PYICEBERG_CATALOG__LAKE__GLUE__REGION": "eu-west-1",
        "PYICEBERG_CATALOG__LAKE__GLUE__PROFILE_NAME": "default",
        "PYICEBERG_CATALOG__LAKE__CLIENT__PROFILE_NAME": "default",
        "PYICEBERG_CATALOG__LAKE__BOTOCORE_SESSION": "x",
        "PYICEBERG_CATALOG__LAKE__CLIENT__ROLE_ARN": "arn:aws:iam::1:role/x",
        "PYICEBERG_CATALOG__LAKE__PY_CATALOG_IMPL": "os.path",
    }
    with pytest.raises(ConfigError, match="no credentials for Glue"):
        open_catalog(
            "lake",
            {"type": "glue"},
            credentials=catalog_properties("lake", secret),
            access=access(proxy).catalog_access,
        )
