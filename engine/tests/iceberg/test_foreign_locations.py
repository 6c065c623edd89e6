"""Iceberg metadata names files of this machine, of other buckets and of nobody: none is read."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tideline.errors import TidelineError, UnsupportedTableError
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.data.file_rows import stored_vector
from tideline.iceberg.data.parquet_rows import ParquetSource
from tideline.iceberg.manifest.manifest_reading import manifests_of
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.metadata_place import AnsweringCatalog, MetadataPlace
from tideline.iceberg.table.open_table import IcebergTable
from tideline.storage.location import StoreLocation
from tideline.storage.memory.store import MemoryStore
from tideline.storage.named_places import SETTING
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.storage.s3.store import S3Store
from tideline.testing.iceberg_model import SCHEMA, IcebergModel
from tideline.testing.iceberg_row_delta import RowDelta
from tideline.testing.in_time import in_time

FOREIGN = (
    "file:///dev/zero",
    "/proc/self/environ",
    "file:/etc/passwd",
    "s3://other-bucket/x",
    "memory://other/x",
    "http://127.0.0.1:1/x",
)


@pytest.fixture(autouse=True)
def nothing_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)


def model_in(folder: Path | None) -> IcebergModel:
    """A table of two rows, in a folder or in memory."""
    if folder is not None:
        return IcebergModel.create_in(str(folder), 1)
    model = IcebergModel.create()
    model.append(range(2))
    return model


def alter(model: IcebergModel, change: Callable[[dict[str, Any]], None]) -> TableMetadata:
    """The newest metadata with a change in its document."""
    operations = model.operations()
    loaded = operations.load()
    document = dict(loaded.metadata.json())
    change(document)
    altered = TableMetadata.of(document)
    path = f"metadata/v{loaded.version}.metadata.json"
    model.location.open().put(path, altered.to_bytes())
    return altered


def name_manifest_list(document: dict[str, Any], uri: str) -> None:
    document["snapshots"] = [
        {**snapshot, "manifest-list": uri} for snapshot in document["snapshots"]
    ]


def snapshot_of(model: IcebergModel) -> tuple[FileIO, Snapshot]:
    operations = model.operations()
    snapshot = operations.load().metadata.snapshot()
    assert snapshot is not None
    return operations.io, snapshot


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("uri", FOREIGN)
def test_a_manifest_list_elsewhere_is_not_read(tmp_path: Path, uri: str, in_folder: bool) -> None:
    model = model_in(tmp_path / "table" if in_folder else None)
    alter(model, lambda document: name_manifest_list(document, uri))
    io, snapshot = snapshot_of(model)
    with pytest.raises(UnsupportedTableError, match=rf"{SETTING} \[table=.*path={uri}"):
        in_time(lambda: manifests_of(io, snapshot))


@pytest.mark.parametrize("uri", FOREIGN)
def test_a_manifest_elsewhere_is_not_read(uri: str) -> None:
    model = model_in(None)
    io, snapshot = snapshot_of(model)
    (manifest, *_) = manifests_of(io, snapshot)
    writer = MetadataWriter(io, snapshot_id=snapshot.snapshot_id)
    named, _ = writer.write_list(
        [replace(manifest, path=uri)],
        metadata=model.metadata(),
        parent=None,
        sequence_number=snapshot.sequence_number,
    )
    alter(model, lambda document: name_manifest_list(document, named))
    with pytest.raises(UnsupportedTableError, match=rf"{SETTING} \[table=.*path={uri}"):
        in_time(model.rows)


@pytest.mark.parametrize("uri", FOREIGN)
def test_a_data_file_elsewhere_is_not_read(uri: str) -> None:
    model = model_in(None)
    file = replace(model.files().data()[0].data_file, file_path=uri)
    operations = model.operations()
    delta = RowDelta("append", [file])
    model._commit(operations, delta)
    with pytest.raises(UnsupportedTableError, match=rf"{SETTING} \[table=.*path={uri}"):
        in_time(model.rows)
    source = ParquetSource(operations.io, uri, 100, None, {})
    with pytest.raises(UnsupportedTableError, match=SETTING):
        in_time(lambda: list(source.batches(SCHEMA.fields)))
    for read in (operations.io.read, operations.io.open_reader, operations.io.size_bytes):
        with pytest.raises(UnsupportedTableError, match=SETTING):
            read(uri)


def test_a_data_file_that_is_a_fifo_or_a_link_is_not_opened(tmp_path: Path) -> None:
    model = model_in(tmp_path / "table")
    (tmp_path / "canary").write_bytes(b"canary")
    os.mkfifo(tmp_path / "table" / "fifo")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "canary")
    for name in ("fifo", "link"):
        source = ParquetSource(model.operations().io, f"{tmp_path}/table/{name}", 100, None, {})
        with pytest.raises(TidelineError, match=name):
            in_time(partial(list, source.batches(SCHEMA.fields)))


def test_a_deletion_vector_is_no_longer_than_metadata_may_be() -> None:
    model = model_in(None)
    io = model.operations().io
    file = replace(
        model.files().data()[0].data_file,
        file_path=f"{model.location.uri}/dv.puffin",
        content_offset=0,
        content_size_bytes=2**50,
    )
    with pytest.raises(UnsupportedTableError, match=r"a deletion vector of .*dv\.puffin"):
        stored_vector(io, file, "x")


@pytest.mark.parametrize("uri", FOREIGN)
def test_properties_of_a_table_declare_nothing(uri: str) -> None:
    """A table says where its writers put data; that is no word on what may be read or written."""
    model = model_in(None)
    places = {"write.data.path": uri, "write.metadata.path": uri}
    alter(model, lambda document: document.update(properties=places))
    with pytest.raises(TidelineError):
        in_time(lambda: model.append(range(4, 6)))
    with pytest.raises(UnsupportedTableError, match=SETTING):
        model.operations().io.write(f"{uri}/new", b"")


def test_a_location_that_a_table_records_opens_no_other_folder(tmp_path: Path) -> None:
    """It is the name under which others know the folder that was opened."""
    model = model_in(tmp_path / "table")
    alter(model, lambda document: document.update(location="file:///etc"))
    io = model.operations().io
    with pytest.raises(TidelineError, match="no such object"):
        io.read("file:///etc/passwd")
    assert io.place("file:///etc/passwd")[0].uri == f"file://{tmp_path}/table"


def test_a_path_that_leads_up_from_the_table_is_refused(tmp_path: Path) -> None:
    model = model_in(tmp_path / "table")
    (tmp_path / "canary").write_bytes(b"")
    io = model.operations().io
    for uri in (f"{tmp_path}/table/../canary", f"{tmp_path}/table/data/../../canary"):
        with pytest.raises(TidelineError, match="canary"):
            io.read(uri)


def test_what_configuration_declares_is_read_in_its_folder_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "a").write_bytes(b"1")
    (tmp_path / "canary").write_bytes(b"canary")
    (tmp_path / "extra" / "link").symlink_to(tmp_path / "canary")
    os.mkfifo(tmp_path / "extra" / "fifo")
    folder = str(model_in(tmp_path / "table").location.uri)
    opened = IcebergTable.open(folder, extra_locations=[str(tmp_path / "extra")])
    monkeypatch.setenv(SETTING, f"s3://lake/x,{tmp_path}/extra")
    for io in (opened.io, IcebergTable.open(folder).io):
        assert io.read(f"file:{tmp_path}/extra/a") == b"1"
        for uri in (f"{tmp_path}/extra/link", f"{tmp_path}/extra/fifo", f"{tmp_path}/canary"):
            with pytest.raises(TidelineError, match=Path(uri).name):
                in_time(partial(io.read, uri))


def test_the_rule_goes_along_into_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "a").write_bytes(b"1")
    monkeypatch.setenv(SETTING, str(tmp_path / "extra"))
    sent = pickle.dumps(FileIO(StoreLocation.of(tmp_path / "table"), "s3://old/t"))
    monkeypatch.setenv(SETTING, "/etc")
    received: FileIO = pickle.loads(sent)
    assert received.read(f"{tmp_path}/extra/a") == b"1"
    with pytest.raises(UnsupportedTableError, match=SETTING):
        received.read("/etc/passwd")


def test_files_elsewhere_in_the_bucket_are_read_with_the_tables_own_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not with those of the process, and never in another bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-process")
    connection = StoreConnection(S3Credentials("of-the-table", "secret"))
    location = StoreLocation.of("s3://lake/t", {"endpoint": "https://lake.example:9000"})
    own = location.open(connection)
    io = FileIO(location, "s3://lake/t", {location: own}, ("s3://archive/t",))
    for uri, bucket in (("s3://lake/spread/x", "lake"), ("s3://archive/t/x", "archive")):
        store, path = io.place(uri)
        assert isinstance(store, S3Store)
        assert store._connection is connection
        assert store.endpoint_url == "https://lake.example:9000"
        assert (store.uri, path) == (f"s3://{bucket}", uri.removeprefix(f"s3://{bucket}/"))
    with pytest.raises(UnsupportedTableError, match=SETTING):
        io.place("s3://archive/other")


def test_locations_are_compared_without_being_read() -> None:
    """A file of another bucket is nobody's to delete here, and no reason to fail."""
    io = FileIO(StoreLocation.of("memory://own/t"), "memory://own/t")
    assert io.actual_uri("s3a://other/x/") == "s3://other/x"
    assert io.actual_uri("/etc/passwd") == "file:///etc/passwd"


def catalog_of(kind: str, **properties: str) -> AnsweringCatalog:
    return AnsweringCatalog("shop", properties, is_server=kind == "rest")


@pytest.mark.parametrize(
    ("kind", "properties", "known"),
    [
        ("rest", {"uri": "http://c.example"}, None),
        ("rest", {"uri": "http://c.example", "warehouse": "file:///data/ware"}, None),
        ("rest", {"uri": "sqlite:///c.db"}, None),
        ("rest", {"uri": "http://c.example"}, "file:///data/ware"),
        ("rest", {"uri": "http://c.example"}, "s3://lake"),
        ("sql", {"uri": "postgresql://db.example/c"}, None),
        ("sql", {"uri": "postgresql://db.example/c", "warehouse": "s3://lake"}, None),
    ],
)
def test_a_catalog_does_not_decide_what_of_this_machine_is_read(
    kind: str, properties: dict[str, str], known: str | None
) -> None:
    opened: list[StoreLocation] = []

    def open_store(location: StoreLocation) -> MemoryStore:
        opened.append(location)
        return MemoryStore("unused")

    for place in ("file:///data/warehouse/t", "/data/warehouse/t", "file:/etc"):
        with pytest.raises(UnsupportedTableError, match=rf"the catalog names .*{SETTING}.*{place}"):
            where = MetadataPlace(
                catalog_of(kind, **properties), None, open_store, known_place=known
            )
            where.opened(place)
    assert opened == []


@pytest.mark.parametrize(
    ("kind", "properties", "known", "setting"),
    [
        ("rest", {"uri": "http://c.example"}, "/data/warehouse", ""),
        ("rest", {"uri": "http://c.example"}, None, "s3://x,/data"),
        ("rest", {"uri": "http://c.example", "warehouse": "file:/data"}, None, ""),
        ("sql", {"uri": "postgresql://db.example/c", "warehouse": "file:/data"}, None, ""),
        ("sql", {"uri": "sqlite:////somewhere/c.db"}, None, ""),
    ],
)
def test_configuration_says_where_a_catalog_may_keep_tables(
    kind: str,
    properties: dict[str, str],
    known: str | None,
    setting: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SETTING, setting)
    catalog = catalog_of(kind, **properties)
    where = MetadataPlace(catalog, None, StoreLocation.open, known_place=known)
    assert where.opened("/data/warehouse/t")[0].uri == "file:///data/warehouse/t"
    assert where.opened("s3://lake/t")[0].uri == "s3://lake/t"


@pytest.mark.parametrize(
    ("location", "is_read"),
    [
        ("s3a://lake/shop/t", True),
        ("s3://lake/elsewhere", True),
        ("s3://ware/shop/t", True),
        ("s3://archive/t", True),
        ("s3://other/shop/t", False),
        ("file:///data/t", False),
        ("/", False),
    ],
)
def test_a_metadata_file_names_places_in_its_bucket_and_where_configuration_says(
    location: str, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "s3://archive")
    catalog = catalog_of("sql", uri="postgresql://db.example/c", warehouse="s3://ware/shop")
    where = MetadataPlace(catalog, None, StoreLocation.open)
    file = "s3://lake/shop/t/metadata/00001-a.metadata.json"
    if is_read:
        where.check(location, file)
        return
    with pytest.raises(UnsupportedTableError, match=rf"{SETTING} \[table=shop, path={location}"):
        where.check(location, file)
