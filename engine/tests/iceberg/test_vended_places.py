"""What a catalog vends is used at the place that it names, and while it is away."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tideline.errors import StorageUnavailableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.storage.egress.route import Egress
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.hostile_catalog import Answer, Received

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, Capability

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.vended_access import VendedAccess
from tideline.iceberg.table.vended_keys import Vended
from tideline.iceberg.table.vended_origin import OpenedOrigin
from tideline.storage.remote.connection import Keyless, StoreConnection
from tideline.storage.remote.store import RemoteStore
from tideline.testing.served_catalog import ServedCatalog, without_prefixes

NAME = "shop.orders"
PLACE = "s3://lake/orders"
ENDPOINT = "https://minio.example:9000"
KEYS = {
    "s3.access-key-id": "made-up-id",
    "s3.secret-access-key": "made-up-secret",
    "s3.session-token": "made-up-token",
}


class Elsewhere(ServedCatalog):
    """As Polaris: an answer's `config` has the endpoint, and each credential its keys alone."""

    def store(self, location: str) -> ObjectStore:  # noqa: ARG002
        return StoreLocation.of("memory://vended-places/t").open()

    def honest(self, request: Received) -> Answer:
        if request.kind == "config":
            listed = {*map(str, DEFAULT_ENDPOINTS), str(Capability.V1_LOAD_CREDENTIALS)}
            document = {"defaults": {}, "overrides": {}, "endpoints": sorted(listed)}
            return Answer().saying(document)
        answer = super().honest(replace(request, path=request.path.removesuffix("/credentials")))
        if request.kind != "table" or answer.status != 200:
            return answer
        place = {"s3.endpoint": ENDPOINT, "client.region": "eu-central-1"}
        is_asked_alone = request.path.endswith("/credentials")
        whole = {} if is_asked_alone else {**answer.document, "config": place}
        entry = {"prefix": PLACE, "config": {"s3.session-token-expires-at-ms": ends_ms(900)} | KEYS}
        return answer.saying({**whole, "storage-credentials": [entry]})


def ends_ms(seconds: float) -> str:
    return str(round((time.time() + seconds) * 1000))


@pytest.fixture
def catalog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with Elsewhere() as catalog:
        catalog.create(NAME, PLACE)
        monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", catalog.url)
        yield catalog


def endpoint_of(io: FileIO) -> str:
    store, _ = io.place(f"{PLACE}/data/x.parquet")
    assert isinstance(store, RemoteStore)
    return store.endpoint_url


def test_a_task_sends_keys_to_the_place_that_the_table_names(catalog: Elsewhere) -> None:
    table = CatalogTable(open_catalog("lake", {"uri": catalog.url}), NAME)
    assert endpoint_of(table.io) == ENDPOINT
    assert endpoint_of(pickle.loads(pickle.dumps(table.io))) == ENDPOINT


def test_renewed_keys_are_for_the_same_place(catalog: Elsewhere) -> None:
    opened = open_catalog("lake", {"uri": catalog.url})
    origin = OpenedOrigin(opened, ("shop", "orders"))  # type: ignore[arg-type]
    first, second = origin().keys[0], origin().keys[0]
    assert first.properties == second.properties
    assert first.properties.options == {"endpoint": ENDPOINT, "region": "eu-central-1"}
    paths = [asked.path for asked in catalog.received if asked.kind == "table"]
    assert [path.endswith("/credentials") for path in paths] == [False, True]


def test_a_traceback_has_nothing_of_an_answer_that_is_not_read(catalog: Elsewhere) -> None:
    table = CatalogTable(open_catalog("lake", {"uri": catalog.url}), NAME)
    catalog.reply = lambda request: without_prefixes(catalog.honest(request))
    with pytest.raises(StorageUnavailableError, match="Field required") as caught:
        table.load()
    shown = "".join(traceback.format_exception(caught.value))
    assert not any(value[-8:] in shown for value in KEYS.values())


def test_an_answer_does_not_say_how_requests_authenticate(
    catalog: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_token(request: Received) -> Answer:
        answer = catalog.honest(request)
        if request.kind != "table":
            return answer
        return answer.saying({**answer.document, "config": {"token": "token-of-an-answer"}})

    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__HEADER__AUTHORIZATION", "Basic own")
    catalog.reply = with_token
    table = CatalogTable(open_catalog("lake"), NAME)
    table.commit(table.load(), (), (SetProperties({"a": "b"}),))
    table.load()
    assert not any("token-of-an-answer" in asked.text for asked in catalog.received)


def test_a_catalog_that_hangs_stops_nobody_whose_keys_hold() -> None:
    passed_s, asked = 0.0, 0
    is_asked, answers = threading.Event(), threading.Event()

    def hang() -> Vended:
        nonlocal asked
        asked += 1
        is_asked.set()
        answers.wait(10.0)
        raise StorageUnavailableError("the catalog does not answer")

    access = VendedAccess(hang, now_s=lambda: time.time() + passed_s)
    access.take(Vended.of(KEYS | {"s3.session-token-expires-at-ms": ends_ms(900)}))
    passed_s = 700.0
    waiting = threading.Thread(target=access.keys, args=(PLACE,))
    waiting.start()
    assert is_asked.wait(5.0)
    begun_s = time.monotonic()
    access.keys(PLACE)
    assert time.monotonic() - begun_s < 2.0
    passed_s = 760.0
    answers.set()
    waiting.join(5.0)
    for _ in range(3):
        passed_s += 5.0
        access.keys(PLACE)
    assert asked == 1, "after a minute without an answer it is not asked every five seconds"
    passed_s = 1_000.0
    with pytest.raises(StorageUnavailableError, match="not renewed: the catalog does not answer"):
        access.keys(PLACE)


def test_what_is_vended_beside_a_store_of_another_kind_leaves_as_its_requests_do() -> None:
    """Through the egress proxy, by the gate: also where the LakeStore is on Google or Azure."""
    vended = Vended.of(KEYS | {"s3.session-token-expires-at-ms": ends_ms(900)})
    egress = Egress("http://own:ticket@proxy.test:1")
    given = StoreConnection(Keyless.ANONYMOUS, scheme="gs", egress=egress)
    access = VendedAccess(lambda: vended)
    access.take(vended)
    like = StoreLocation.of("gs://lake/orders").open(given)
    store = access.store(StoreLocation.of(PLACE), like)
    assert isinstance(store, RemoteStore)
    assert store.connection is not None
    assert (store.connection.scheme, store.connection.egress) == ("s3", egress)
