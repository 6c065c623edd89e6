"""Rows that a writer which looks only into base files leaves in a log next to a base file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tideline.hudi.capabilities.flink_writers import is_flink_file_id
from tideline.hudi.capabilities.look import was_flink_here
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.file_group.lookup_candidate import LookupCandidate
from tideline.hudi.file_group.stored_key_lookup import IS_GONE, LookupSettings, StoredKeyLookup
from tideline.hudi.file_group.wanted_keys import WantedKeys
from tideline.hudi.placement.file_choice import lookup_candidates
from tideline.hudi.placement.rows_in_logs import may_have_rows_in_logs
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.table.file_group import FileSlice
from tideline.hudi.table.table_config import TableType
from tideline.testing.flink_append import append_as_flink
from tideline.testing.service_process import local_services
from tideline.testing.small_table import SCHEMA, SmallTable, batch
from tideline.testing.table_audit import open_fresh

EAGER = {"hoodie.compact.inline.max.delta.commits": "1"}


@pytest.fixture
def table() -> SmallTable:
    """Its file group has k000 and k002; a log deletes k000, a compaction is planned."""
    made = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"}, table_type=TableType.MERGE_ON_READ
    )
    made.write("insert", batch([0, 2], 1))
    made.write("delete", batch([0], 0))
    plan_compaction(made)
    return made


def plan_compaction(table: SmallTable) -> None:
    local_services(table, EAGER).schedule(COMPACTION)


def run_compaction(table: SmallTable) -> None:
    """The pending one: another is not due."""
    local_services(table, {}).run(COMPACTION)


def write_as_hudi(table: SmallTable, monkeypatch: pytest.MonkeyPatch, v: int) -> None:
    """An upsert of k000 by an index that looks into base files alone."""

    def bases(*arguments: Any, **more: Any) -> tuple[LookupCandidate, ...]:
        found = lookup_candidates(*arguments, **more)
        slices = [candidate.file_slice for candidate in found]
        return tuple(
            LookupCandidate(
                FileSlice(file_slice.group, file_slice.base_instant, file_slice.base_file)
            )
            for file_slice in slices
        )

    with monkeypatch.context() as patched:
        patched.setattr("tideline.hudi.write.write_by_location.lookup_candidates", bases)
        table.write("upsert", batch([0], v))


@pytest.mark.parametrize("completes", [False, True])
def test_a_row_on_top_of_a_compaction_is_found(
    completes: bool, table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_as_hudi(table, monkeypatch, 2)
    if completes:
        run_compaction(table)
    table.write("upsert", batch([0, 2, 4], 3))
    assert table.values() == [("k000", 3), ("k002", 3), ("k004", 3)]
    table.write("delete", batch([0], 0))
    table.write("upsert", batch([0, 2], 4))
    assert table.values() == [("k000", 4), ("k002", 4), ("k004", 3)]


def test_only_logs_next_to_a_compaction_that_dropped_rows_are_looked_into(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> list[bool]:
        hoodie = open_fresh(table.location, clock=table.clock)
        timeline = hoodie.timeline()
        ask = may_have_rows_in_logs(hoodie, timeline)
        view = hoodie.files.read_view(timeline)
        return [
            ask(file_slice) for name in view.partitions for file_slice in view.latest_slices(name)
        ]

    table.fake_clock.advance(60)
    run_compaction(table)
    table.fake_clock.advance(60)
    table.write("upsert", batch([2], 2))
    # It began when the compaction was over.
    assert asked() == [False]
    plan_compaction(table)
    write_as_hudi(table, monkeypatch, 3)
    run_compaction(table)
    # This compaction dropped nothing.
    assert asked() == [False, False]


def test_a_task_finds_rows_of_logs_and_marks_deleted_ones(
    table: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """k000 is in the log alone, k002 in the base file and deleted by the log."""
    write_as_hudi(table, monkeypatch, 2)
    run_compaction(table)
    table.write("delete", batch([2], 0))
    hoodie = open_fresh(table.location, clock=table.clock)
    timeline, keys = hoodie.timeline(), ["k000", "k002", "k004"]
    candidates = lookup_candidates(
        hoodie.files.read_view(timeline),
        TableType.MERGE_ON_READ,
        is_global=False,
        has_rows_in_logs=may_have_rows_in_logs(hoodie, timeline),
    )
    reading = SliceContext.of(hoodie, timeline, SCHEMA)
    settings = LookupSettings(reads_bloom_filters=True, prunes_by_ranges=True, reading=reading)
    lookup = StoredKeyLookup(candidates, settings)
    wanted = WantedKeys.of(pa.array(keys), pa.array(["p0"] * 3))
    found = [row for rows in lookup.look_up(hoodie.store, 0, wanted) for row in rows.to_pylist()]
    assert {row[RECORD_KEY]: row[IS_GONE] for row in found} == {"k000": False, "k002": True}
    assert len(found) == 2


@pytest.fixture
def appended() -> SmallTable:
    """Its file group has k000 in its base file, and k000, k002 and k004 in its log."""
    made = SmallTable.in_memory(
        {"hoodie.parquet.small.file.limit": "0"}, table_type=TableType.MERGE_ON_READ
    )
    made.write("insert", batch([0], 1))
    append_as_flink(made, [0, 2, 4], 2)
    return made


@pytest.mark.parametrize("trace", ["ckp_meta/20260101000000000.COMPLETED", "ckp_meta_job2/x",
                                   "view_storage_conf.properties"])  # fmt: skip
def test_keys_that_flink_appended_to_a_log_are_found(appended: SmallTable, trace: str) -> None:
    appended.store().put(f".hoodie/.aux/{trace}", b"")
    appended.write("upsert", batch([0, 2, 6], 3))
    assert appended.values() == [("k000", 3), ("k002", 3), ("k004", 2), ("k006", 3)]
    appended.write("delete", batch([4], 0))
    assert appended.values() == [("k000", 3), ("k002", 3), ("k006", 3)]
    assert appended.lake().check(keys=True) == ()


def test_a_file_group_of_flinks_is_known_by_its_id(appended: SmallTable) -> None:
    store = appended.store()
    store.put(".hoodie/.aux/tideline-tokens.json", b"{}")
    assert not was_flink_here(store)
    (base,) = appended.lake().hoodie_table.files.base_files()
    bare = base.file_id.removesuffix("-0")
    assert (is_flink_file_id(base.file_id), is_flink_file_id(bare)) == (False, True)
    for info in list(store.list()):
        if base.file_id in info.path:
            store.put(info.path.replace(base.file_id, bare), store.get(info.path))
            store.delete(info.path)
    appended.write("upsert", batch([0, 2, 6], 3))
    assert appended.values() == [("k000", 3), ("k002", 3), ("k004", 2), ("k006", 3)]
