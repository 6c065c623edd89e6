"""Hive metastores that tenants name: by way of the egress proxy, as nobody of the operator's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.storage.egress.proxy import EgressProxy
from tideline.testing.egress_case import OpenGate, running_proxy
from tideline.testing.free_port import free_port
from tideline_operator.controller.catalog_secrets import catalog_properties
from tideline_operator.reading.access import Access

pytest.importorskip("pyiceberg")
pytest.importorskip("hive_metastore")

from tideline.iceberg.table.catalog_hive_lookup import LookedUpHiveCatalog
from tideline.iceberg.table.catalog_opening import asking_catalog, open_catalog
from tideline.iceberg.table.catalog_search import list_tables
from tideline.testing.hostile_metastore import HostileMetastore, stored_table

ADDRESSES = {
    "metadata.example": "169.254.169.254",
    "inside.example": "10.0.0.9",
    "hive.example": "127.0.0.1",
}
ICEBERG = {"table_type": "ICEBERG", "metadata_location": "s3://lake/t/metadata/0.metadata.json"}


@pytest.fixture
def proxy() -> Iterator[EgressProxy]:
    with running_proxy(ADDRESSES) as running:
        yield running


@pytest.fixture(autouse=True)
def operators_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operator has itself: nothing of it counts."""
    monkeypatch.setenv("HADOOP_USER_NAME", "of-the-operator")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__UGI", "of-the-operator")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "thrift://127.0.0.1:9")


@pytest.fixture
def metastore() -> Iterator[HostileMetastore]:
    answers = {
        "get_all_databases": lambda _: ["shop"],
        "get_all_tables": lambda _: ["orders", "plain"],
        "get_table_objects_by_name": lambda _: [
            stored_table("shop", "orders", **ICEBERG),
            stored_table("shop", "plain"),
        ],
        "set_ugi": lambda _: [],
    }
    with HostileMetastore(answers) as running:
        yield running


def access(proxy: EgressProxy, gate: OpenGate | None = None) -> Access:
    return Access(egress=proxy.of("lake"), catalog_gate=gate, catalog_server="catalog x")


def opened(reaching: Access, given: dict[str, str], **secret: str) -> LookedUpHiveCatalog:
    variables = {f"PYICEBERG_CATALOG__LAKE__{name}": text for name, text in secret.items()}
    found = open_catalog(
        "lake",
        given,
        credentials=catalog_properties("lake", variables),
        access=reaching.catalog_access,
        timeout_s=2,
    )
    assert isinstance(found, LookedUpHiveCatalog)
    return found


@pytest.mark.parametrize("host", ["metadata.example", "inside.example", "169.254.169.254"])
@pytest.mark.parametrize("by", ["uri", "secret", "a further address"])
def test_no_address_leads_into_the_cluster_or_to_a_metadata_service(
    proxy: EgressProxy, host: str, by: str
) -> None:
    uri = f"thrift://{host}:9083"
    if by == "a further address":
        uri = f"thrift://127.0.0.1:{free_port()},{uri}"
    given = {"type": "hive"} if by == "secret" else {"type": "hive", "uri": uri}
    secret = {"URI": uri} if by == "secret" else {}
    gate = OpenGate()
    reaching = access(proxy, gate)
    catalog = opened(reaching, given, **secret)
    with (
        pytest.raises(StorageUnavailableError, match=r"169\.254\.169\.254|10\.0\.0\.9"),
        reaching.asking_catalog(),
        asking_catalog(),
    ):
        catalog.load_table("shop.orders")
    assert gate.problems != [None], "it counts as one that does not answer"


def test_a_metastore_is_asked_by_way_of_the_proxy_as_the_tenant_alone(
    proxy: EgressProxy, metastore: HostileMetastore
) -> None:
    given = {"type": "hive", "uri": metastore.uri("hive.example")}
    gate = OpenGate()
    reaching = access(proxy, gate)
    with reaching.asking_catalog():
        found = list_tables(opened(reaching, given))
    assert [table.name for table in found] == ["shop.orders"]
    assert gate.problems == [None]
    assert "set_ugi" not in [name for name, _ in metastore.asked]
    list_tables(opened(reaching, given, UGI="trips:hadoop"))
    (user, *_) = [asked for name, asked in metastore.asked if name == "set_ugi"]
    assert (user.user_name, user.group_names) == ("trips", ["hadoop"])
    assert "operator" not in str(metastore.asked)


def test_a_metastore_that_is_away_counts_as_one_that_does_not_answer(proxy: EgressProxy) -> None:
    gate = OpenGate()
    reaching = access(proxy, gate)
    uri = f"thrift://hive.example:{free_port()}"
    with pytest.raises(StorageUnavailableError) as caught, reaching.asking_catalog():
        list_tables(opened(reaching, {"type": "hive", "uri": uri}))
    assert gate.problems == [str(caught.value)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"uri": "thrift://hive.example/x"}, "the address of a Hive metastore is"),
        ({"uri": "https://hive.example"}, "the address of a Hive metastore is"),
        ({"uri": "thrift://me:pw@hive.example"}, "the address of a Hive metastore is"),
        ({"uri": "thrift://hive.example", "HIVE__KERBEROS_AUTHENTICATION": "true"}, "Kerberos"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    proxy: EgressProxy, given: dict[str, str], words: str
) -> None:
    uri = given.pop("uri")
    with pytest.raises(ConfigError, match=words) as caught:
        opened(access(proxy), {"type": "hive", "uri": uri}, **given)
    assert "pw" not in str(caught.value)


def test_a_secret_names_no_program_and_no_file(
    proxy: EgressProxy, metastore: HostileMetastore
) -> None:
    catalog = opened(
        access(proxy),
        {"type": "hive", "uri": metastore.uri("hive.example")},
        PY_CATALOG_IMPL="os.path",
        PY_IO_IMPL="os.path",
        HIVE__KERBEROS_SERVICE_NAME="hive",
    )
    assert catalog.properties.keys() == {"type", "uri"}


def test_answers_are_data(proxy: EgressProxy, metastore: HostileMetastore) -> None:
    """A metastore names no folder of the operator's, and is not asked for files of others."""
    metadata = {**ICEBERG, "metadata_location": "file:///etc/passwd"}
    metastore.answers["get_table"] = lambda _: stored_table("shop", "orders", **metadata)
    catalog = opened(access(proxy), {"type": "hive", "uri": metastore.uri("hive.example")})
    with pytest.raises(TidelineError, match="reads nothing but metadata files"):
        catalog.load_table("shop.orders")
    for given, words in (({"table_type": "DELTA"}, "a table of DELTA"),
                         ({}, "is no Iceberg table"),
                         ({"table_type": "iceberg"}, "has no metadata_location")):  # fmt: skip
        metastore.answers["get_table"] = partial(
            _answering, stored_table("shop", "orders", **given)
        )
        with pytest.raises(TidelineError, match=words):
            catalog.load_table("shop.orders")


def _answering(table: Any, _: Any) -> Any:
    return table
