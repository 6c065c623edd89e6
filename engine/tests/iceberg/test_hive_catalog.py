"""Iceberg tables in a real Hive metastore, beside PyIceberg and Iceberg's Spark runtime: no commit
is lost, whatever becomes of locks and answers."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.cli.main import run
from tideline.errors import ConflictError, StorageUnavailableError, UnsupportedTableError
from tideline.iceberg_lake_table import IcebergLakeTable, create_iceberg, open_iceberg
from tideline.lake_table import LakeTable
from tideline.registration.table_name import TableName
from tideline.storage.named_places import SETTING
from tideline.testing.hive_metastore_server import HiveMetastoreServer, serve_metastore
from tideline.testing.iceberg_peer import IcebergPeer

pytest.importorskip("thrift")

from hive_metastore import ttypes
from hive_metastore.ThriftHiveMetastore import Client
from pyiceberg.catalog import Catalog, load_catalog
from thrift.transport.TTransport import TTransportException

from tideline.hive.address import hive_addresses
from tideline.hive.connection import Connection
from tideline.iceberg.table import catalog_hive
from tideline.registration.hive import HiveMetastore

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


@dataclass(frozen=True)
class Place:
    """A database of its own, its folder, and the metastore."""

    uri: str
    database: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.database}.t"

    def create(self, **more: Any) -> IcebergLakeTable:
        location = (self.folder / "t").as_uri()
        return create_iceberg(self.name, SCHEMA, catalog="hms", location=location, **more)

    def opened(self) -> IcebergLakeTable:
        return open_iceberg(self.name, catalog="hms")

    @property
    def pyiceberg(self) -> Catalog:
        options = {"type": "hive", "uri": self.uri, "hive.hive2-compatible": "true"}
        return load_catalog("theirs", **options)

    def ids(self) -> list[int]:
        table = self.pyiceberg.load_table(self.name)
        return sorted(table.scan().to_arrow()["id"].to_pylist())

    def append_theirs(self, *ids: int) -> None:
        self.pyiceberg.load_table(self.name).append(rows(*ids))

    def stored(self) -> Any:
        with Connection(hive_addresses(self.uri), Client) as client:
            return client.get_table(self.database, "t")


@pytest.fixture
def place(
    tmp_path: Path, hive_metastore: HiveMetastoreServer, monkeypatch: pytest.MonkeyPatch
) -> Place:
    database = f"d_{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("PYICEBERG_CATALOG__HMS__URI", hive_metastore.uri)
    monkeypatch.setenv(SETTING, tmp_path.as_uri())
    return Place(hive_metastore.uri, database, tmp_path)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "at": [0] * len(ids)}, schema=SCHEMA)


def test_each_continues_what_the_other_wrote(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    table = place.create()
    table.append(rows(1, 2, 3))
    place.append_theirs(4, 5)
    table = place.opened()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert table.rewrite(options={"rewrite-all": "true"}).files_added
    table.delete("id = 4")
    table.alter().set_properties({"owner": "them", "note": "x" * 5000}).commit()
    stored = place.stored()
    assert [column.type for column in stored.sd.cols] == ["bigint", "timestamp"]
    assert "note" not in stored.parameters
    place.append_theirs(6)
    assert place.ids() == [1, 2, 3, 5, 6]
    assert place.opened().metadata.properties["note"] == "x" * 5000
    assert run(["iceberg", "show", place.name, "--catalog", place.uri]) == 0
    assert "rows" in capsys.readouterr().out


def test_writers_at_the_same_time_lose_nothing(place: Place) -> None:
    place.create(properties={"commit.retry.num-retries": "20"}).append(rows(0))
    failures: list[str] = []

    def ours(number: int) -> None:
        for step in range(4):
            try:
                place.opened().append(rows(100 * number + step))
            except ConflictError:
                failures.append(f"ours {number} {step}")

    def theirs(number: int) -> None:
        for step in range(4):
            try:
                place.append_theirs(100 * number + step)
            except Exception as error:
                failures.append(f"theirs {number} {step} {type(error).__name__}")

    threads = [threading.Thread(target=ours, args=(number,)) for number in (1, 2)]
    threads += [threading.Thread(target=theirs, args=(3,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = {0, *(100 * number + step for number in (1, 2, 3) for step in range(4))}
    missing = written - set(place.ids())
    assert len(missing) == len(failures), failures
    assert not any(name.startswith("ours") for name in failures)
    assert set(place.ids()) <= written


def changing(monkeypatch: pytest.MonkeyPatch, around: Callable[[Callable[[], None]], None]) -> None:
    """What happens around the next change of a table of ours, whose request it is given."""
    alter, left = Client.alter_table_with_environment_context, [1]

    def altered(client: Client, *given: Any, **named: Any) -> None:
        is_ours = isinstance(client, catalog_hive._GuardedClient)
        if is_ours and left and left.pop():
            around(lambda: alter(client, *given, **named))
        else:
            alter(client, *given, **named)

    monkeypatch.setattr(Client, "alter_table_with_environment_context", altered)


def test_a_lock_that_has_ended_loses_no_commit_of_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create().append(rows(1))

    def others_first(request: Callable[[], None]) -> None:
        with Connection(hive_addresses(place.uri), Client) as client:
            for held in client.show_locks(ttypes.ShowLocksRequest()).locks or ():
                client.unlock(ttypes.UnlockRequest(lockid=held.lockid))
        place.append_theirs(2)
        request()

    changing(monkeypatch, others_first)
    place.opened().append(rows(3))
    assert place.ids() == [1, 2, 3]


@pytest.mark.parametrize("is_done", [True, False], ids=["done", "not done"])
def test_an_answer_that_is_lost_is_found_out_and_leaves_no_lock(
    is_done: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create().append(rows(1))

    def lost(request: Callable[[], None]) -> None:
        if is_done:
            request()
        raise TTransportException(message="the connection is gone")

    changing(monkeypatch, lost)
    if is_done:
        place.opened().append(rows(2))
    else:
        with pytest.raises(Exception, match="may have committed"):
            place.opened().append(rows(2))
    started_s = time.monotonic()
    place.opened().append(rows(3))
    assert time.monotonic() - started_s < 5
    assert place.ids() == ([1, 2, 3] if is_done else [1, 3])


def test_a_lock_that_a_dead_process_left_is_a_conflict_until_it_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(properties={"commit.retry.num-retries": "1"}).append(rows(1))
    monkeypatch.setenv("PYICEBERG_CATALOG__HMS__LOCK_CHECK_RETRIES", "2")
    table = place.opened()
    with Connection(hive_addresses(place.uri), Client) as client:
        component = ttypes.LockComponent(
            level=ttypes.LockLevel.TABLE,
            type=ttypes.LockType.EXCLUSIVE,
            dbname=place.database,
            tablename="t",
        )
        asked = ttypes.LockRequest(component=[component], user="them", hostname="gone")
        held = client.lock(asked)
        with pytest.raises(ConflictError):
            table.append(rows(2))
        client.unlock(ttypes.UnlockRequest(lockid=held.lockid))
    place.opened().append(rows(3))
    assert place.ids() == [1, 3]


def test_what_the_metastore_refuses_did_not_take_place(place: Place) -> None:
    """Hive compares types by position, unless it is configured otherwise."""
    table = place.create()
    table.append(rows(1))
    with pytest.raises(UnsupportedTableError, match="the catalog rejects the change"):
        table.alter().drop_column("id").commit()
    place.opened().append(rows(2))
    assert place.ids() == [1, 2]
    nanoseconds = pa.schema([("at", pa.timestamp("ns"))])
    with pytest.raises(UnsupportedTableError, match="Hive has no type"):
        create_iceberg(
            f"{place.database}.ns",
            nanoseconds,
            catalog="hms",
            location=(place.folder / "ns").as_uri(),
            format_version=3,
        )


def test_a_table_of_hives_own_is_named_as_one(place: Place) -> None:
    place.pyiceberg.create_namespace(place.database)
    with Connection(hive_addresses(place.uri), Client) as client:
        plain = ttypes.Table(
            dbName=place.database,
            tableName="t",
            sd=ttypes.StorageDescriptor(
                cols=[ttypes.FieldSchema("id", "bigint", "")],
                location=place.folder.as_uri(),
                serdeInfo=ttypes.SerDeInfo(),
            ),
        )
        client.create_table(plain)
    with pytest.raises(UnsupportedTableError, match="is no Iceberg table"):
        place.opened()


def test_a_hudi_table_is_published_there(place: Place) -> None:
    table = LakeTable.create(str(place.folder / "hudi"), record_key="id", name="trips")
    for v in (1, 2):
        table.write(pa.table({"id": ["a"], "v": [v]}))
        done = table.publish(catalog="hms", identifier=place.name)
        assert done.is_new
    found = place.pyiceberg.load_table(place.name)
    assert found.scan().to_arrow()["v"].to_pylist() == [2]
    assert len(found.snapshots()) == 2
    assert table.stop_publishing(drop=True)
    assert not place.pyiceberg.table_exists(place.name)


@pytest.mark.interop
def test_icebergs_spark_is_another_writer(place: Place, iceberg_peer: IcebergPeer) -> None:
    catalog = f"hms_{place.database}"
    settings = {"type": "hive", "uri": place.uri, "warehouse": place.folder.as_uri()}
    iceberg_peer.add_catalog(catalog, settings)
    place.create().append(rows(1, 2))
    iceberg_peer.run(f"insert into {catalog}.{place.name} values (3, timestamp '2026-01-01')")
    table = place.opened()
    assert table.rewrite(options={"rewrite-all": "true"}).files_added == 1
    iceberg_peer.run(f"delete from {catalog}.{place.name} where id = 1")
    place.opened().append(rows(4))
    found = iceberg_peer.sql(f"select id from {catalog}.{place.name} order by id")
    assert found["id"].to_pylist() == [2, 3, 4] == place.ids()
    iceberg_peer.run(
        f"create table {catalog}.{place.database}.theirs (id bigint) using iceberg "
        f"location '{place.folder.as_uri()}/theirs'",
        f"insert into {catalog}.{place.database}.theirs values (1)",
    )
    other = open_iceberg(f"{place.database}.theirs", catalog="hms")
    other.append(pa.table({"id": [2]}))
    counted = iceberg_peer.sql(f"select count(*) as n from {catalog}.{place.database}.theirs")
    assert counted["n"].to_pylist() == [2]


def test_a_metastore_that_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is away commits fail, and are known to; the next finds everything as it was."""
    with serve_metastore(tmp_path) as server:
        monkeypatch.setenv("PYICEBERG_CATALOG__HMS__URI", server.uri)
        monkeypatch.setenv(SETTING, tmp_path.as_uri())
        place = Place(server.uri, "restarted", tmp_path)
        table = place.create()
        table.append(rows(1))
        hudi = LakeTable.create(str(tmp_path / "hudi"), record_key="id", name="trips")
        hudi.write(pa.table({"id": ["a"]}))
        hudi.sync(hive=server.uri, database="restarted")
        with Connection(hive_addresses(server.uri), Client) as client:
            component = ttypes.LockComponent(
                level=ttypes.LockLevel.TABLE,
                type=ttypes.LockType.EXCLUSIVE,
                dbname="restarted",
                tablename="other",
            )
            asked = ttypes.LockRequest(component=[component], user="them", hostname="gone")
            held = client.lock(asked).lockid
        server.process.kill()
        with pytest.raises(StorageUnavailableError, match="does not answer: no connection to"):
            place.opened()
        hudi.write(pa.table({"id": ["b"]}))
        with pytest.raises(StorageUnavailableError, match="does not answer: no connection to"):
            hudi.sync(hive=server.uri, database="restarted")
        server.process.start()
        table.append(rows(2))
        assert place.ids() == [1, 2]
        (done,) = hudi.sync(hive=server.uri, database="restarted")
        stored = HiveMetastore.at(server.uri).table(TableName("restarted", "trips"))
        assert stored is not None
        assert done.instant == stored.last_commit
        with Connection(hive_addresses(server.uri), Client) as client:
            locks = client.show_locks(ttypes.ShowLocksRequest()).locks
            assert [lock.lockid for lock in locks] == [held], "ours was given back"
