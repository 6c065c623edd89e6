"""Indexes that have lost their last file groups are not believed: keys are looked for in others."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tideline.errors import CorruptTableError
from tideline.hudi.metadata_table.reader import MetadataTable
from tideline.hudi.metadata_table.record_index import RECORD_INDEX_PARTITION
from tideline.index_lookups import lookups_so_far
from tideline.testing.keyed_table import PARTITIONS, KeyedTable, id_of
from tideline.testing.reads_by_statistics import statistics_always_used


@pytest.fixture(autouse=True)
def whatever_it_costs() -> Iterator[None]:
    with statistics_always_used():
        yield


def lose(keyed: KeyedTable, name: str, left: int) -> None:
    """Delete the files of all but the first file groups of a partition."""
    store = keyed.location.open()
    for info in store.list_directory(f".hoodie/metadata/{name}").objects:
        found = re.search(r"-(\d{4})-0", info.path)
        if found is not None and int(found[1]) >= left:
            store.delete(info.path)


# Where the count that is left divides that of before, as 5 does 10, each key is where it belongs.
@pytest.mark.parametrize("left", [3, 4, 6, 7, 8, 9])
def test_an_index_without_its_last_file_groups_is_damaged(left: int) -> None:
    keyed = KeyedTable()
    keyed.write(range(60), operation="insert")
    table = keyed.table()
    metadata = MetadataTable(table.store, table.clock)
    whole = {record.key for record in metadata.read(RECORD_INDEX_PARTITION)}
    lose(keyed, "record_index", left)
    for keys in ({id_of(3)}, {"none"}, whole):
        with pytest.raises(CorruptTableError, match="has lost file groups of record_index"):
            list(metadata.look_up(RECORD_INDEX_PARTITION, keys))
    with pytest.raises(CorruptTableError, match="has lost file groups of record_index"):
        list(metadata.read(RECORD_INDEX_PARTITION))


def test_lookups_fall_back_and_repair_makes_it_again() -> None:
    keyed = KeyedTable()
    keyed.write(range(60), operation="insert")
    keys = sorted(id_of(key) for key in range(60))
    lose(keyed, "record_index", 7)
    _, passed_over = lookups_so_far()
    assert keyed.compare(f"id = '{id_of(3)}'") == (PARTITIONS, PARTITIONS)
    assert lookups_so_far()[1] > passed_over
    keyed.write(range(60))
    assert sorted(keyed.lake().to_arrow(["id"])["id"].to_pylist()) == keys, "no key is there twice"
    said = [str(finding) for finding in keyed.lake().check()]
    assert any("has lost file groups of record_index" in text for text in said), said
    keyed.lake().repair()
    assert not keyed.lake().check()
    assert keyed.compare(f"id = '{id_of(3)}'")[1] == 1
    keyed.write(range(60))
    assert sorted(keyed.lake().to_arrow(["id"])["id"].to_pylist()) == keys


def test_a_secondary_index_that_lost_some_hides_no_row() -> None:
    keyed = KeyedTable()
    keyed.write(range(60), operation="insert")
    before = keyed.compare("n = 22")
    lose(keyed, "secondary_index_n", 4)
    assert before[1] < PARTITIONS
    for number in range(20, 30):
        assert keyed.compare(f"n = {number}") == (PARTITIONS, PARTITIONS)


def test_an_index_with_few_keys_is_looked_into_where_these_are() -> None:
    """Most of its file groups are empty."""
    keyed = KeyedTable()
    keyed.write([3, 4], operation="insert")
    assert keyed.read(f"id = '{id_of(50)}'")[0] == []
    keyed.write([3, 4, 5])
    found = keyed.lake().to_arrow(["id"])["id"].to_pylist()
    assert sorted(found) == sorted(map(id_of, (3, 4, 5)))
    assert not keyed.lake().check()
