"""Tables of a REST catalog that vends credentials: they are used, renewed, and never shown."""

from __future__ import annotations

import pickle
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tideline
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.storage.refusals import AccessDeniedError
from tideline.testing.minio_server import MinioServer

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog

from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_rest import BoundedRestCatalog
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.vended_keys import SETTING
from tideline.iceberg.table.vended_origin import OpenedOrigin
from tideline.testing.hostile_catalog import Answer, Received
from tideline.testing.minio_users import Right
from tideline.testing.served_catalog import refusal, without_prefixes
from tideline.testing.vending_catalog import VendingCatalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.minio

NAME = "shop.orders"
HTTP = {"allow_http": "true"}
LIFE_S = 6.0


@pytest.fixture(autouse=True)
def _nothing_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def catalog(
    request: pytest.FixtureRequest, minio_server: MinioServer, minio_bucket: str
) -> Iterator[VendingCatalog]:
    has_endpoint = getattr(request, "param", True)
    with VendingCatalog(
        minio_server, minio_bucket, life_s=LIFE_S, has_endpoint=has_endpoint
    ) as catalog:
        catalog.create(NAME, f"s3://{minio_bucket}/{secrets.token_hex(6)}/orders")
        yield catalog
        catalog.stop_vending()


def opened(catalog: VendingCatalog, **properties: str) -> tideline.IcebergLakeTable:
    given = {"uri": catalog.url, **properties}
    return tideline.open_iceberg(
        NAME, catalog="lake", catalog_properties=given, storage_options=HTTP
    )


def rows(*numbers: int) -> pa.Table:
    return pa.table({"number": list(numbers), "parity": ["even" for _ in numbers]})


def numbers_of(table: tideline.IcebergLakeTable) -> list[int]:
    return sorted(table.to_pyarrow_dataset().to_table()["number"].to_pylist())


def test_a_table_is_written_read_and_maintained(catalog: VendingCatalog) -> None:
    table = opened(catalog)
    for number in range(3):
        table.write(rows(number))
    assert numbers_of(table) == [0, 1, 2]
    options = {"rewrite-all": "true"}
    table.run("rewrite_data_files", options=options)
    for service in ("rewrite_manifests", "rewrite_position_deletes", "remove_orphan_files"):
        table.refresh().run(service)
    table.refresh().run("expire_snapshots", options={"older_than_age_ms": "0"})
    assert numbers_of(table.refresh()) == [0, 1, 2]
    assert table.files().num_rows == 1
    theirs = load_catalog("lake", uri=catalog.url).load_table(NAME)
    assert sorted(theirs.scan().to_arrow()["number"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize(
    "catalog", [True, False], ids=["credentials endpoint", "loaded tables"], indirect=True
)
def test_ended_credentials_are_renewed_in_the_middle_of_a_write(catalog: VendingCatalog) -> None:
    table = opened(catalog)
    first = set(catalog.vended)

    def slow() -> Iterator[pa.RecordBatch]:
        for number in range(4):
            yield from rows(number).to_batches()
            time.sleep(LIFE_S / 2)

    reader = pa.RecordBatchReader.from_batches(rows(0).schema, slow())
    table.write(reader)
    assert numbers_of(table.refresh()) == [0, 1, 2, 3]
    assert len(set(catalog.vended) - first) >= 2


def test_the_server_really_refuses_ended_ones(catalog: VendingCatalog) -> None:
    """Without this the tests above prove nothing."""
    table = opened(catalog)
    table.write(rows(1))
    catalog.changed = lambda given: given | {"s3.session-token-expires-at-ms": "9" * 13}
    table.refresh()
    numbers_of(table)
    time.sleep(LIFE_S + 1)
    with pytest.raises(AccessDeniedError, match="that the catalog vends") as caught:
        numbers_of(table)
    assert_hidden(catalog, str(caught.value))


def test_credentials_last_while_the_catalog_is_away(catalog: VendingCatalog) -> None:
    table = opened(catalog)
    table.write(rows(1))
    table.refresh()
    dataset = table.to_pyarrow_dataset()
    catalog.reply = lambda _: Answer(lost=True)
    assert dataset.to_table().num_rows == 1
    time.sleep(LIFE_S + 0.5)
    with pytest.raises(StorageUnavailableError, match="not renewed") as caught:
        dataset.to_table()
    assert_hidden(catalog, str(caught.value))


def test_a_task_loads_credentials_itself(catalog: VendingCatalog, tmp_path: Path) -> None:
    table = opened(catalog)
    table.write(rows(1))
    body = pickle.dumps(table.table.io)
    assert_hidden(catalog, repr(body), repr(table.table.io), repr(table.table.loaded))
    (tmp_path / "io").write_bytes(body)
    path = table.files()["file"][0].as_py()
    program = (
        "import pickle, sys\n"
        "io = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(len(io.read(sys.argv[2])), io.size_bytes(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "io"), path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size, head = done.stdout.split()
    assert size == head == str(table.table.io.size_bytes(path))


@pytest.mark.slow
@pytest.mark.spark
def test_spark_rewrites_and_erases_across_their_end(
    catalog: VendingCatalog, spark: SparkSession
) -> None:
    """With credentials that end after thirty seconds, as long as the operations take and longer."""
    catalog.life_s = 30.0
    table = opened(catalog)

    def slow() -> Iterator[pa.RecordBatch]:
        for number in range(6):
            yield from rows(number).to_batches()
            time.sleep(8)

    table.write(pa.RecordBatchReader.from_batches(rows(0).schema, slow()))
    table.write(rows(6))
    first = set(catalog.vended)
    given = {"rewrite-all": "true", "tideline.engine.small": "spark"}
    done = table.run("rewrite_data_files", options=given, spark=spark)
    assert done is not None
    assert table.refresh().files().num_rows == 1
    assert len(set(catalog.vended) - first) >= 4, "its tasks have loaded some themselves"
    time.sleep(31)
    table.erase("number = 3", spark=spark)
    assert numbers_of(table.refresh()) == [0, 1, 2, 4, 5, 6]
    theirs = load_catalog("lake", uri=catalog.url).load_table(NAME)
    assert sorted(theirs.scan().to_arrow()["number"].to_pylist()) == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_ends_is_asked_for_again(catalog: VendingCatalog, status: int) -> None:
    """The catalog's own token may end before a long operation does."""
    refused = [status, status]

    def ending(request: Received) -> Answer:
        is_ended = request.kind == "table" and refused
        return refusal(refused.pop(), "Ended") if is_ended else catalog.honest(request)

    found = open_catalog("lake", {"uri": catalog.url}, credentials={"credential": "a:b"})
    assert isinstance(found, BoundedRestCatalog)
    found.vended_for(("shop", "orders"))
    catalog.reply = ending
    assert len(found.vended_for(("shop", "orders")).keys) == 1
    assert refused == []
    tokens = [asked for asked in catalog.received if asked.kind == "token"]
    assert len(tokens) >= 2
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(OpenedOrigin(found, ("shop", "orders")))


def test_none_asks_for_none(catalog: VendingCatalog, minio_server: MinioServer) -> None:
    with pytest.raises(ConfigError, match="no S3 credentials in the environment"):
        opened(catalog, **{SETTING: "none"}).write(rows(1))
    assert catalog.vended == []
    assert all("X-Iceberg-Access-Delegation" not in asked.headers for asked in catalog.received)
    with pytest.MonkeyPatch.context() as patch:
        for name, text in minio_server.environment().items():
            patch.setenv(name, text)
        own = tideline.open_iceberg(
            NAME,
            catalog="lake",
            catalog_properties={"uri": catalog.url, SETTING: "none"},
            storage_options=minio_server.storage_options(),
        )
        own.write(rows(1))
        assert numbers_of(own) == [1]


def test_rights_that_the_catalog_does_not_give(catalog: VendingCatalog) -> None:
    catalog.rights = Right.READ
    table = opened(catalog)
    with pytest.raises(TidelineError, match="give its user more rights") as caught:
        table.write(rows(1))
    assert SETTING in str(caught.value)
    assert_hidden(catalog, str(caught.value))


Change = Callable[[VendingCatalog], None]


def prefixed(prefix: str) -> Change:
    def change(catalog: VendingCatalog) -> None:
        catalog.prefix_of = lambda location: prefix.format(location)

    return change


def with_property(**properties: str) -> Change:
    def change(catalog: VendingCatalog) -> None:
        named = {name.replace("__", ".").replace("_", "-"): text
                 for name, text in properties.items()}  # fmt: skip
        catalog.changed = lambda given: given | named

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (prefixed("s3://elsewhere/"), "none of them for this place"),
        (prefixed("{}/data"), "none of them for this place"),
        (prefixed("{}x"), "none of them for this place"),
        (with_property(s3__endpoint="file:///etc"), "is not taken"),
        (with_property(s3__endpoint="http://user:word@127.0.0.1:1"), "is not taken"),
        (with_property(s3__session_token_expires_at_ms="1"), "ended at 1970"),
    ],
)
def test_what_a_catalog_vends_wrongly(
    change: Change, message: str, catalog: VendingCatalog
) -> None:
    change(catalog)
    with pytest.raises(TidelineError, match=message) as caught:
        opened(catalog)
    assert_hidden(catalog, str(caught.value))


def test_plain_http_is_asked_for(catalog: VendingCatalog) -> None:
    with pytest.raises(TidelineError, match="needs --allow-http") as caught:
        IcebergTable.from_catalog("lake", NAME, properties={"uri": catalog.url})
    assert_hidden(catalog, str(caught.value))


def test_an_answer_of_another_form_shows_nothing(catalog: VendingCatalog) -> None:
    catalog.reply = lambda request: without_prefixes(catalog.honest(request))
    with pytest.raises(TidelineError, match="Field required") as caught:
        opened(catalog)
    assert_hidden(catalog, str(caught.value))


def assert_hidden(catalog: VendingCatalog, *texts: str) -> None:
    assert catalog.vended
    for text in texts:
        assert not any(secret in text or secret[:12] in text for secret in catalog.vended)


def test_a_table_is_created_with_them_where_the_catalog_likes(
    catalog: VendingCatalog, minio_bucket: str
) -> None:
    place = f"s3://{minio_bucket}/{secrets.token_hex(6)}/new"
    catalog.new_place = lambda: place
    made = tideline.create_iceberg(
        "shop.new",
        pa.schema([pa.field("id", pa.int64(), nullable=False)]),
        key="id",
        catalog="lake",
        catalog_properties={"uri": catalog.url},
        storage_options=HTTP,
    )
    assert made.metadata.location == place
    made.write(pa.table({"id": [1, 2]}), "upsert")
    assert made.write(pa.table({"id": [2, 3]}), "upsert").rows_updated == 1
    assert sorted(made.to_arrow()["id"].to_pylist()) == [1, 2, 3]
