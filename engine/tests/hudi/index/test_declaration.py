"""An index that is declared of a table that exists: kept once, where it may be, through deaths."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError
from tideline.hudi.index.declaration import keep_unique, require_declarable
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.index.uniqueness import global_index
from tideline.hudi.open_table import open_table
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.hudi.table.table_config import INDEX_TYPE, METADATA_PARTITIONS, PROPERTIES_PATH
from tideline.lock_timing import DEFAULT_TIMING
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import SmallTable, batch, memory_place

HUDI_INDEX = "hoodie.index.type"
GLOBAL = IndexType.GLOBAL_SIMPLE


def kept(table: SmallTable, kind: IndexType = GLOBAL) -> bool:
    return keep_unique(table.lake().hoodie_table, kind, DEFAULT_TIMING)


def properties(table: SmallTable) -> bytes:
    return table.store().get(PROPERTIES_PATH)


@pytest.mark.parametrize("before", [None, "SIMPLE", "BLOOM"])
def test_a_global_index_is_kept_once(before: str | None) -> None:
    table = SmallTable.in_memory({} if before is None else {HUDI_INDEX: before})
    table.write("insert", batch(range(4), 1))
    assert kept(table)
    assert global_index(table.lake().hoodie_table) is GLOBAL
    written = properties(table)
    assert not kept(table)
    assert not kept(table, IndexType.GLOBAL_BLOOM)
    assert properties(table) == written
    # A write that names no index uses it, and one that names another is refused.
    assert table.lake().writer.config_for_rows(None).index.type is GLOBAL
    with pytest.raises(ConfigError, match="unique in the whole table"):
        table.lake().writer.config_for_rows({HUDI_INDEX: "BLOOM"})


def test_what_says_it_already_and_what_cannot_be_declared_stays_as_it_is() -> None:
    with_index = SmallTable.in_memory()
    with_index.lake().hoodie_table.properties.update({METADATA_PARTITIONS: "files,record_index"})
    in_buckets = SmallTable.in_memory(
        {HUDI_INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    )
    of_hudi = SmallTable.in_memory({HUDI_INDEX: "BUCKET", "hoodie.bucket.index.num.buckets": "2"})
    of_hudi.write("insert", batch(range(4), 1))
    forgotten = (INDEX_TYPE, "hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field")
    of_hudi.lake().hoodie_table.properties.update(dict.fromkeys(forgotten))
    for table in (with_index, in_buckets, of_hudi):
        before = properties(table)
        assert not kept(table)
        assert not kept(table, IndexType.SIMPLE)
        assert properties(table) == before
    for table in (in_buckets, of_hudi):
        with pytest.raises(ConfigError, match="has a bucket index"):
            require_declarable(table.lake().hoodie_table, GLOBAL)
    with pytest.raises(ConfigError, match="has a record index"):
        require_declarable(with_index.lake().hoodie_table, IndexType.SIMPLE)


def test_without_partitions_there_is_nothing_to_keep() -> None:
    location, clock = memory_place()
    store = location.open()
    config = create_table(store, TableDefinition("orders", ("id",)), clock)
    assert not keep_unique(open_table(location, clock, store, config), GLOBAL, DEFAULT_TIMING)


def test_a_death_at_any_step_leaves_it_said_or_not_and_again_it_is_kept() -> None:
    made = SmallTable.in_memory()
    made.write("insert", batch(range(4), 1))
    rehearsed = made.copy()
    rehearsal = FaultyStore(rehearsed.store())
    assert keep_unique(rehearsed.lake(rehearsal).hoodie_table, GLOBAL, DEFAULT_TIMING)
    seen = set()
    for number in range(1, len(rehearsal.writes) + 1):
        for plan in (FaultPlan(crash_before_write=number), FaultPlan(crash_after_write=number)):
            table = made.copy()
            with pytest.raises(SimulatedCrash):
                hoodie = table.lake(FaultyStore(table.store(), plan)).hoodie_table
                keep_unique(hoodie, GLOBAL, DEFAULT_TIMING)
            seen.add(global_index(table.lake().hoodie_table))
            kept(table)
            assert global_index(table.lake().hoodie_table) is GLOBAL
            assert not kept(table)
    assert seen == {None, GLOBAL}
