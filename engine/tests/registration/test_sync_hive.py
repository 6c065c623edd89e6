"""Tables registered in a real Hive metastore: what it makes of the calls, and of two at once."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.lake_table import LakeTable
from tideline.registration.hive import HiveMetastore
from tideline.registration.metastore import RegisteredPartition
from tideline.registration.sync import sync_table
from tideline.registration.table_name import TableName
from tideline.testing.free_port import free_port
from tideline.testing.hive_metastore_server import HiveMetastoreServer

pytestmark = pytest.mark.slow

QUIET = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


@pytest.fixture
def database() -> str:
    return f"d_{uuid.uuid4().hex[:8]}"


@pytest.fixture
def metastore(hive_metastore: HiveMetastoreServer) -> Iterator[HiveMetastore]:
    yield HiveMetastore.at(f"thrift://127.0.0.1:{free_port()},{hive_metastore.uri}")


def create(folder: Path, **more: str) -> LakeTable:
    return LakeTable.create(
        str(folder),
        record_key="id",
        partition_by=["part", "n"],
        name="Trips",
        hive_style=True,
        url_encode=True,
        properties={**QUIET, **more},
    )


def rows(*parts: tuple[str, int], **columns: object) -> pa.Table:
    keys = [f"k{number}" for number in range(len(parts))]
    names, numbers = zip(*parts, strict=True)
    plain = {"id": keys, "part": list(names), "n": list(numbers)}
    return pa.table({**plain, **{name: [value] * len(parts) for name, value in columns.items()}})


def test_a_table_lives_in_a_metastore(
    tmp_path: Path, metastore: HiveMetastore, hive_metastore: HiveMetastoreServer, database: str
) -> None:
    """Created, written to, widened, partitions dropped and moved; the first address is dead."""
    table = create(tmp_path / "t")
    address = hive_metastore.uri
    table.write(rows(("a/b c", 1), ("x=y'\"%", 2)))
    (done,) = table.sync(hive=address, database=database)
    assert done.tables[0].is_created
    name = TableName(database, "trips")
    found = metastore.table(name)
    assert found is not None
    assert [column.name for column in found.columns][5:] == ["id"]
    assert [(column.name, column.type) for column in found.partition_columns] == [
        ("part", "string"),
        ("n", "bigint"),
    ]
    listed = sorted(metastore.partitions(found), key=lambda partition: partition.values)
    assert [partition.values for partition in listed] == [("a/b c", "1"), ("x=y'\"%", "2")]
    assert listed == sorted(
        metastore.partitions(found, [("a/b c", "1"), ("x=y'\"%", "2"), ("none", "3")]),
        key=lambda partition: partition.values,
    )
    folders = {Path(partition.location.removeprefix("file:")) for partition in listed}
    assert all(folder.is_dir() for folder in folders)
    assert not table.sync(hive=address, database=database)[0].is_changed
    table.write(rows(("a/b c", 1), ("new", 3), w=1.5, v=2))
    (done,) = table.sync(hive=address, database=database)
    assert (done.tables[0].is_altered, done.tables[0].partitions_added) == (True, 1)
    found = metastore.table(name)
    assert found is not None
    assert [(column.name, column.type) for column in found.columns][5:] == [
        ("id", "string"),
        ("w", "double"),
        ("v", "bigint"),
    ]
    (first, *_) = listed
    metastore.move_partitions(found, [RegisteredPartition(first.values, str(tmp_path / "else"))])
    table.delete_partitions("part=new/n=3")
    (done,) = table.sync(hive=address, database=database, all_partitions=True)
    assert (done.tables[0].partitions_moved, done.tables[0].partitions_dropped) == (1, 1)
    assert sorted(metastore.partitions(found), key=lambda each: each.values) == listed
    assert (tmp_path / "t" / "part=new" / "n=3").is_dir()
    (done,) = LakeTable.open(str(tmp_path / "t")).sync(
        hive=address, database=database, all_partitions=True
    )
    assert not done.is_changed


def test_more_partitions_than_go_with_one_call(
    tmp_path: Path, metastore: HiveMetastore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline.registration.hive._BATCH", 3)
    table = create(tmp_path / "t")
    table.write(rows(*((f"p{number}", number) for number in range(8))))
    name = TableName(database, "t")
    opened = table.hoodie_table
    assert sync_table(opened, metastore, name).tables[0].partitions_added == 8
    assert not sync_table(opened, metastore, name, everything=True).is_changed
    found = metastore.table(name)
    assert found is not None
    metastore.add_partitions(found, metastore.partitions(found))
    metastore.drop_partitions(found, [("none", "1"), ("p0", "0")])
    assert sync_table(opened, metastore, name, everything=True).tables[0].partitions_added == 1


def test_another_sync_is_seen_in_the_transaction_of_the_change(
    tmp_path: Path, metastore: HiveMetastore, database: str
) -> None:
    table = create(tmp_path / "t")
    name = TableName(database, "t")
    for number in range(2):
        table.write(rows((f"p{number}", number)))
        sync_table(table.hoodie_table, metastore, name)
    before = metastore.table(name)
    assert before is not None
    writers = 4
    ready, won = threading.Barrier(writers), []

    def alter(number: int) -> None:
        parameters = {**before.parameters, "last_commit_time_sync": f"2026010100000000{number}"}
        ready.wait()
        altered = type(before)(
            **{
                field: getattr(before, field)
                for field in ("name", "columns", "partition_columns", "location", "format", "kind")
            },
            parameters=parameters,
        )
        if metastore.alter_table(before, altered):
            won.append(number)

    threads = [threading.Thread(target=alter, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    now = metastore.table(name)
    assert now is not None
    assert now.last_commit == f"2026010100000000{won[0]}"
    assert sync_table(table.hoodie_table, metastore, name).instant
    assert metastore.table(name) == before or metastore.table(name) is not None


def test_a_metastore_that_is_away_or_refuses_is_named(
    tmp_path: Path, metastore: HiveMetastore, database: str
) -> None:
    table = create(tmp_path / "t")
    table.write(rows(("p", 1)))
    away = HiveMetastore.at(f"thrift://127.0.0.1:{free_port()}")
    with pytest.raises(StorageUnavailableError, match="the metastore does not answer"):
        sync_table(table.hoodie_table, away, TableName(database, "t"))
    assert metastore.table(TableName(database, "none")) is None
    with pytest.raises(ConfigError, match="the metastore refuses"):
        metastore.create_database("not a name")


def test_columns_may_come_anywhere_and_a_refusal_says_what_helps(
    tmp_path: Path, metastore: HiveMetastore, database: str
) -> None:
    table, name = create(tmp_path / "t"), TableName(database, "t")
    table.write(rows(("p", 1), w=1.5, v="a"))
    sync_table(table.hoodie_table, metastore, name)
    whole = metastore.table(name)
    assert whole is not None
    other = replace(whole, name=TableName(database, "other"), columns=whole.columns[:-2])
    other = replace(other, columns=(whole.columns[-1], *other.columns))
    assert metastore.create_table(other)
    assert sync_table(table.hoodie_table, metastore, other.name).tables[0].is_altered
    found = metastore.table(other.name)
    assert found is not None
    assert found.columns == (*other.columns, whole.columns[-2])
    retyped = (*found.columns[:-1], replace(found.columns[-1], type="date"))
    with pytest.raises(ConfigError, match=r"col\.type\.changes=false .* or drop the table there"):
        metastore.alter_table(found, replace(found, columns=retyped))
