"""A REST catalog that would sign each request to S3 itself: refused by name before any of them, but
where keys are there as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tideline
from tideline.errors import UnsupportedTableError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.hostile_catalog import Answer, Received, Spy

pytest.importorskip("pyiceberg")

from tideline.testing.served_catalog import ServedCatalog

NAME = "shop.orders"
KEYS = {"s3.access-key-id": "made-up-id", "s3.secret-access-key": "made-up-secret"}


class Signing(ServedCatalog):
    """Has clients of S3 send it their requests to sign; `config` is answered beside that."""

    def __init__(self) -> None:
        super().__init__()
        self.config: dict[str, str] = {}

    def store(self, location: str) -> ObjectStore:  # noqa: ARG002
        return StoreLocation.of("memory://remote-signing/t").open()

    def honest(self, request: Received) -> Answer:
        answer = super().honest(request)
        if request.kind != "table" or answer.status != 200:
            return answer
        signed = {"s3.remote-signing-enabled": "true", "s3.signer.uri": self.url}
        return answer.saying({**answer.document, "config": signed | self.config})


@pytest.fixture
def spy() -> Iterator[Spy]:
    with Spy() as spy:
        yield spy


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch, spy: Spy) -> Iterator[Signing]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with Signing() as catalog:
        catalog.create(NAME, "s3://lake/orders")
        catalog.config = {"s3.endpoint": spy.url, "client.region": "eu-central-1"}
        yield catalog


def opened(catalog: Signing, spy: Spy) -> tideline.IcebergLakeTable:
    options = {"endpoint": spy.url, "region": "eu-central-1", "allow_http": "true"}
    return tideline.open_iceberg(
        NAME, catalog="lake", catalog_properties={"uri": catalog.url}, storage_options=options
    )


def test_it_is_refused_by_name_before_any_request_to_s3(catalog: Signing, spy: Spy) -> None:
    with pytest.raises(UnsupportedTableError, match="would sign each request") as caught:
        opened(catalog, spy).to_arrow()
    assert NAME in str(caught.value)
    assert "s3.remote-signing-enabled" in str(caught.value)
    assert "AWS_ACCESS_KEY_ID" in str(caught.value)
    assert spy.heard == []
    assert not [request for request in catalog.received if "sign" in request.path]


@pytest.mark.parametrize("source", ["the catalog", "the process"])
def test_keys_are_used_where_there_are_some(
    source: str, catalog: Signing, spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    if source == "the catalog":
        catalog.config |= KEYS
    else:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["s3.access-key-id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["s3.secret-access-key"])
    assert opened(catalog, spy).table.io.read("s3://lake/orders/data/x.parquet") == b"{}"
    (heard,) = spy.heard
    assert f"Credential={KEYS['s3.access-key-id']}/".encode() in heard
