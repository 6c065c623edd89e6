"""Deleting a table's own files: all of them, in an order that can be resumed, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from tideline.hudi.table.table_config import PUBLISH_MERGE, TableType
from tideline.iceberg.metadata.table_property import OWNER
from tideline.publication.publish import publish_table
from tideline.publication.published_files import PublishedFiles
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline_operator.reading import table_removal
from tideline_operator.reading.table_removal import TableRemoval

FOREIGN = {
    "orders.csv": "it is in the root",
    "p0/notes.csv": "it is in a partition",
    "p0/part-0000-1234.parquet": "it is another program's parquet file",
    "exports/2026/a.csv": "it is in another folder",
    "other/.hoodie/hoodie.properties": "it is a table",
    "other/p0/x_0-0-0_20260101000000000.parquet": "it is that table's data",
    "other/p0/.hoodie_partition_metadata": "it is that table's partition",
    "ice/metadata/v1.metadata.json": "it is an Iceberg table",
    "ice/data/x_0-0-0_20260101000000000.parquet": "it is that table's data",
    "in/x_0-0-0_20260101000000000.parquet": "it waits to be ingested",
    "in/.hoodie_partition_metadata": "it is another LakeTable's landing prefix nevertheless",
}


def always() -> bool:
    return True


def small_table(table_type: TableType = TableType.COPY_ON_WRITE) -> SmallTable:
    table = SmallTable.in_memory(table_type=table_type)
    table.write("upsert", batch(range(10), 1))
    table.write("upsert", batch(range(5), 2))
    return table


def published_table() -> SmallTable:
    """Two files of it have logs, which it is published with."""
    properties = {PUBLISH_MERGE: "true"}
    table = SmallTable.in_memory(properties, table_type=TableType.MERGE_ON_READ)
    table.write("upsert", batch(range(10), 1))
    table.write("upsert", batch(range(5), 2))
    publish_table(table.lake().hoodie_table)
    return table


def removal(store: ObjectStore, may_go_on: Callable[[], bool] = always) -> TableRemoval:
    return TableRemoval(store, {"in": "lake/reader"}, may_go_on)


def paths(store: ObjectStore) -> set[str]:
    return {found.path for found in store.list()}


@pytest.mark.parametrize("table_type", list(TableType))
def test_a_table_goes_whole_and_everything_else_stays(table_type: TableType) -> None:
    store = small_table(table_type).location.open()
    own = paths(store)
    for path in FOREIGN:
        store.put(path, b"not ours")
    work = removal(store)
    assert work.run()
    assert paths(store) == set(FOREIGN)
    assert (work.deleted, work.kept.count) == (len(own), len(FOREIGN))
    assert "kept 11 files outside of the table" in str(work.kept)
    assert "and 8 more" in str(work.kept)


@pytest.mark.parametrize("table", [small_table, published_table])
def test_what_names_the_table_goes_last_so_that_any_turn_can_be_the_last(
    monkeypatch: pytest.MonkeyPatch, table: Callable[[], SmallTable]
) -> None:
    monkeypatch.setattr(table_removal, "_OBJECTS_AT_ONCE", 1)
    store = table().location.open()
    turns, left = 0, [len(paths(store))]
    while True:
        answers = iter([True])
        if removal(store, partial(next, answers, False)).run():
            break
        turns += 1
        found = paths(store)
        assert ".hoodie/hoodie.properties" in found
        assert len(found) == left[-1] - 1
        left.append(len(found))
    assert paths(store) == set()
    assert turns == left[0] - 1


def test_its_publication_goes_before_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_removal, "_OBJECTS_AT_ONCE", 1)
    store = published_table().location.open()
    own = paths(store)
    publication = {path for path in own if path.startswith("metadata/")}
    assert any(path.startswith("metadata/merged/") for path in publication)
    store.put("metadata/notes.txt", b"not ours")
    answers = iter([True] * len(publication))
    assert not removal(store, partial(next, answers, False)).run()
    assert paths(store) == own - publication | {"metadata/notes.txt"}
    work = removal(store)
    assert work.run()
    assert (paths(store), work.kept.count) == ({"metadata/notes.txt"}, 1)


def test_an_iceberg_table_of_somebody_elses_in_the_folder_stays() -> None:
    store = small_table().location.open()
    theirs = published_table().location.open()
    document = json.loads(theirs.get("metadata/v2.metadata.json"))
    del document["properties"][OWNER]
    foreign = {
        "metadata/v1.metadata.json": json.dumps(document).encode(),
        "metadata/snap-1.avro": b"not ours",
        "metadata/version-hint.text": b"1",
    }
    for path, body in foreign.items():
        store.put(path, body)
    assert removal(store).run()
    assert paths(store) == set(foreign)
    store.put("metadata/v2.metadata.json", b"{")
    assert PublishedFiles.of_table(store).paths() == ()


def test_a_former_leader_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_removal, "_OBJECTS_AT_ONCE", 1)
    store = small_table().location.open()
    before = paths(store)

    def lost() -> bool:
        raise PermissionError("another leads")

    with pytest.raises(PermissionError):
        removal(store, lost).run()
    assert paths(store) == before


def test_files_outside_of_the_tables_partitions_stay() -> None:
    store = small_table().location.open()
    store.delete("p1/.hoodie_partition_metadata")
    unreached = {path for path in paths(store) if path.startswith("p1/")}
    assert unreached
    assert removal(store).run()
    assert paths(store) == unreached
