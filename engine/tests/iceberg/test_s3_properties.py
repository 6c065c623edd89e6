"""What Iceberg's properties of S3 mean for Tideline's store: honoured, or refused by name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.iceberg.metadata.metadata_update import SetProperties
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.hostile_catalog import Answer, Received

pytest.importorskip("pyiceberg")

import tideline
from tideline.iceberg.table.catalog_opening import open_catalog
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.s3_properties import Bars, S3Properties
from tideline.iceberg.table.table_operations import Committed
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.ruled_s3_server import RuledS3Server, S3Rules
from tideline.testing.served_catalog import ServedCatalog
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess

NAME = "shop.orders"
PLACE = "s3://lake/orders"
KEY = "arn:aws:kms:eu-central-1:123456789012:key/0a1b"
CREDENTIALS = {
    "s3.access-key-id": "made-up-id",
    "s3.secret-access-key": "made-up-secret",
    "s3.session-token": "made-up-token",
}
ROWS = pa.table({"number": [1, 2], "parity": ["odd", "even"]})


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"s3.sse.type": "kms", "s3.sse.key": KEY}, {"sse": "aws:kms", "sse_kms_key_id": KEY}),
        ({"s3.sse.type": "DSSE-KMS"}, {"sse": "aws:kms:dsse"}),
        ({"s3.sse.type": "s3", "s3.sse.key": "unused"}, {"sse": "AES256"}),
        ({"s3.sse.type": "none", "s3.sse.key": "unused"}, {}),
        ({"s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": KEY},
         {"sse": "aws:kms", "sse_kms_key_id": KEY}),
        ({"s3.force-virtual-addressing": "true"}, {"path_style": "false"}),
        ({"s3.force-virtual-addressing": "False"}, {"path_style": "true"}),
        ({"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"},
         {"path_style": "true"}),
        ({"s3.path-style-access": True}, {"path_style": "True"}),
        ({"s3.region": "eu-west-1", "client.region": "eu-central-1"}, {"region": "eu-central-1"}),
        ({"s3.endpoint": "https://gate.example/storage/s3"},
         {"endpoint": "https://gate.example/storage/s3"}),
        ({"s3.requester-pays": "true"}, {"requester_pays": "true"}),
        ({"s3.multipart.part-size-bytes": "1", "s3.connect-timeout": "3", "gcs.project-id": "x"},
         {}),
        ({"s3.endpoint": "https://x.example\r\nX-Other: 1"}, {}),
    ],
)  # fmt: skip
def test_what_a_store_has_an_option_for(
    said: Mapping[str, object], options: Mapping[str, str]
) -> None:
    found = S3Properties.of(said)
    assert found.options == options
    assert (found.bars, found.refused) == (Bars(), None)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"s3.sse.type": "custom", "s3.sse.key": "a2V5", "s3.sse.md5": "x"}, "s3.sse.type=custom"),
        ({"s3.sse.type": "rot13"}, "s3.sse.type=rot13"),
        ({"s3.access-points.lake": "arn:aws:s3::1:accesspoint/a"}, "s3.access-points.lake"),
        ({"s3.access-grants.enabled": "true"}, "s3.access-grants.enabled"),
        ({"s3.proxy-uri": "http://proxy:3128"}, "s3.proxy-uri"),
    ],
)
def test_what_no_file_can_be_read_with_is_named(said: Mapping[str, object], words: str) -> None:
    assert words in str(S3Properties.of(said).refused)


@pytest.mark.parametrize(
    ("said", "bars"),
    [
        ({"s3.acl": "bucket-owner-full-control"}, Bars(writes="s3.acl")),
        ({"s3.write.storage-class": "INTELLIGENT_TIERING"}, Bars("s3.write.storage-class")),
        ({"s3.write.tags.team": "shop"}, Bars("s3.write.tags.team")),
        ({"s3.write.table-tag-enabled": "false"}, Bars()),
        ({"s3.write.table-tag-enabled": "true"}, Bars("s3.write.table-tag-enabled")),
        ({"s3.delete-enabled": "false"}, Bars(deletes="s3.delete-enabled=false")),
        ({"s3.delete-enabled": "true"}, Bars()),
        ({"s3.delete.tags.gone": "yes"}, Bars(deletes="s3.delete.tags.gone")),
    ],
)
def test_what_writes_and_deletes_would_have_to_do_is_named(
    said: Mapping[str, object], bars: Bars
) -> None:
    assert S3Properties.of(said).bars == bars


def test_what_is_nearer_counts_first() -> None:
    found = S3Properties.of({"s3.sse.type": "s3"}, {"s3.sse.type": "kms", "s3.acl": "private"})
    assert (found.options, found.bars.writes) == ({"sse": "AES256"}, "s3.acl")


def test_an_endpoint_of_ones_own_leaves_the_rest() -> None:
    said = S3Properties.of(
        {"s3.endpoint": "https://a.example", "s3.region": "x", "s3.sse.type": "s3"}
    )
    assert said.below({"endpoint": "https://b.example"}) == {
        "endpoint": "https://b.example",
        "sse": "AES256",
    }


class Demanding(ServedCatalog):
    """A catalog that vends keys of a server with rules, and what `said` has beside them."""

    def __init__(self, server: RuledS3Server) -> None:
        super().__init__()
        self._s3_server = server
        self.said: dict[str, str] = {}
        self.vends = True

    def store(self, location: str) -> ObjectStore:
        own = {"sse": "aws:kms", "sse_kms_key_id": KEY}
        place = StoreLocation.of(location, {**self._s3_server.storage_options(), **own})
        return place.open(StoreConnection(S3Credentials("id", "secret", "made-up-token")))

    def honest(self, request: Received) -> Answer:
        answer = super().honest(replace(request, path=request.path.removesuffix("/credentials")))
        if request.kind != "table" or answer.status != 200 or not self.vends:
            return answer
        ends = str(round((time.time() + 900) * 1000))
        entry = {"prefix": PLACE, "config": CREDENTIALS | {"s3.session-token-expires-at-ms": ends}}
        place = {"s3.endpoint": self._s3_server.endpoint, "client.region": "us-east-1"} | self.said
        return answer.saying({**answer.document, "config": place, "storage-credentials": [entry]})


@pytest.fixture
def server() -> Iterator[RuledS3Server]:
    """Below a path. Each write says how it is encrypted, each request has the vended token."""
    demanded = {
        "x-amz-server-side-encryption": "aws:kms",
        "x-amz-server-side-encryption-aws-kms-key-id": KEY,
    }
    with RuledS3Server("lake", rules=S3Rules(path="/storage/s3")) as server:
        server.rules.demanded = demanded
        yield server


@pytest.fixture
def catalog(server: RuledS3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Demanding]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with Demanding(server) as catalog:
        catalog.create(NAME, PLACE)
        catalog.said = {"s3.sse.type": "kms", "s3.sse.key": KEY}
        yield catalog


def opened(catalog: Demanding, **storage_options: str) -> tideline.IcebergLakeTable:
    given = {"uri": catalog.url}
    options = {"allow_http": "true", **storage_options}
    return tideline.open_iceberg(
        NAME, catalog="lake", catalog_properties=given, storage_options=options
    )


def written(table: tideline.IcebergLakeTable) -> int:
    table.write(ROWS)
    return table.refresh().count()


def test_vended_keys_write_as_the_catalog_demands(
    catalog: Demanding, server: RuledS3Server
) -> None:
    """Below a path, with encryption, and with the session token on every request."""
    server.rules.tokens = {"made-up-token"}
    assert written(opened(catalog)) == 2
    catalog.said = {}
    with pytest.raises(tideline.errors.TidelineError, match="denied"):
        written(opened(catalog))


def test_an_endpoint_of_ones_own_keeps_the_encryption(
    catalog: Demanding, server: RuledS3Server
) -> None:
    catalog.said["s3.endpoint"] = "https://elsewhere.example"
    assert written(opened(catalog, endpoint=server.endpoint)) == 2


@pytest.mark.parametrize("name", ["s3.acl", "s3.write.tags.team", "s3.write.storage-class"])
def test_a_property_of_written_files_stops_writes_and_no_reads(
    catalog: Demanding, server: RuledS3Server, name: str
) -> None:
    written(opened(catalog))
    catalog.said[name] = "word"
    table = opened(catalog)
    assert table.count() == 2
    before = server.buckets["lake"].objects.copy()
    with pytest.raises(UnsupportedTableError, match=f"{name} asks for more") as caught:
        written(table)
    assert caught.value.table == PLACE
    assert server.buckets["lake"].objects == before


def test_where_clients_delete_nothing_files_stay(catalog: Demanding, server: RuledS3Server) -> None:
    table = opened(catalog)
    for _ in range(3):
        written(table)
    catalog.said["s3.delete-enabled"] = "false"
    table = opened(catalog)
    before = set(server.buckets["lake"].objects)
    table.run("rewrite_data_files", options={"rewrite-all": "true"})
    done = table.refresh().run("expire_snapshots", options={"older_than_age_ms": "0"})
    assert done is not None
    assert "s3.delete-enabled=false" in str(done.to_json_object())
    assert before <= set(server.buckets["lake"].objects)
    assert table.refresh().count() == 6


def test_keys_of_the_customer_are_refused_by_name(catalog: Demanding) -> None:
    catalog.said = {"s3.sse.type": "custom", "s3.sse.key": "a2V5"}
    with pytest.raises(UnsupportedTableError, match=r"demands s3\.sse\.type=custom") as caught:
        opened(catalog)
    assert "a2V5" not in str(caught.value)


def test_a_word_that_no_store_has_is_named(catalog: Demanding) -> None:
    catalog.said = {"s3.server-side-encryption": "rot13"}
    with pytest.raises(UnsupportedTableError, match="sse is one of"):
        opened(catalog)


def test_the_configuration_of_the_process_counts_before_the_answer(
    catalog: Demanding, server: RuledS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.said = {"s3.endpoint": "https://elsewhere.example", "s3.sse.type": "s3"}
    prefix = "PYICEBERG_CATALOG__LAKE__S3__"
    monkeypatch.setenv(f"{prefix}ENDPOINT", server.endpoint)
    monkeypatch.setenv(f"{prefix}SSE__TYPE", "kms")
    monkeypatch.setenv(f"{prefix}SSE__KEY", KEY)
    assert written(opened(catalog)) == 2
    monkeypatch.setenv(f"{prefix}ACL", "private")
    with pytest.raises(UnsupportedTableError, match=r"s3\.acl"):
        written(opened(catalog))
    monkeypatch.setenv(f"{prefix}PROXY_URI", "http://proxy:3128")
    with pytest.raises(ConfigError, match=r"configuration of the catalog demands s3\.proxy-uri"):
        opened(catalog)


def test_a_metadata_file_is_a_written_file(
    catalog: Demanding, server: RuledS3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a catalog whose clients write them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    options = {**server.storage_options(), "sse": "aws:kms", "sse_kms_key_id": KEY}

    def table() -> CatalogTable:
        found = open_catalog("own", {"uri": f"sqlite:///{tmp_path}/own.db"})
        return CatalogTable(found, NAME, storage_options=options)

    metadata = catalog.tables[NAME].metadata
    table().register(StoreLocation.of(PLACE, options).open(), "metadata/1.metadata.json", metadata)
    change = (SetProperties({"owner": "shop"}),)
    first = table()
    assert isinstance(first.commit(first.load(), (), change), Committed)
    monkeypatch.setenv("PYICEBERG_CATALOG__OWN__S3__ACL", "private")
    second = table()
    with pytest.raises(UnsupportedTableError, match=r"s3\.acl asks for more"):
        second.commit(second.load(), (), change)


def test_keys_in_the_configuration_are_named_where_the_environment_has_none(
    catalog: Demanding, server: RuledS3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.vends = False
    prefix = "PYICEBERG_CATALOG__LAKE__S3__"
    monkeypatch.setenv(f"{prefix}ENDPOINT", server.endpoint)
    monkeypatch.setenv(f"{prefix}ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv(f"{prefix}SECRET_ACCESS_KEY", "a-secret-of-its-own")
    with pytest.raises(ConfigError, match=r"s3\.access-key-id.*set AWS_ACCESS_KEY_ID") as caught:
        opened(catalog)
    assert "a-secret-of-its-own" not in str(caught.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up-secret")
    assert opened(catalog).count() == 0


def test_of_a_resource_no_property_of_s3_counts(catalog: Demanding) -> None:
    """Its store is its LakeStore's."""
    access = CatalogAccess(given_by=Author.RESOURCE, allows_local=False)
    given = {"uri": catalog.url, "s3.endpoint": "https://elsewhere.example", "s3.acl": "private"}
    found = open_catalog("lake", given, access=access)
    table = CatalogTable(found, NAME, storage_options={"allow_http": "true"}, access=access)
    assert table.io.bars == Bars()
    assert "elsewhere" not in str(table.io.location)
