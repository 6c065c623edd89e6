"""Which keys of a base file later logs deleted, and what it costs to know."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tideline.hudi.file_group.deleted_keys import deleted_keys
from tideline.hudi.file_group.file_slice_merge import SliceContext
from tideline.hudi.file_group.handle_context import RECORD_KEY
from tideline.hudi.placement.file_choice import lookup_candidates
from tideline.hudi.table.table_config import TableType
from tideline.storage.object_store import ObjectStore
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

WANTED = pa.array(["k000", "k002", "k004", "k006"])


@pytest.fixture
def table() -> SmallTable:
    made = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ, ordering=["v"])
    made.write("insert", batch([0, 2, 4], 5))
    return made


def gone(table: SmallTable, store: ObjectStore | None = None) -> list[bool] | None:
    """Of the wanted keys, as the lookup of the table's only file group has it."""
    hoodie = open_fresh(table.location, store, table.clock)
    timeline = hoodie.timeline()
    view = hoodie.files.read_view(timeline)
    schema = hoodie.schemas.newest(timeline)
    assert schema is not None
    (candidate,) = lookup_candidates(
        view, TableType.MERGE_ON_READ, is_global=False, separates_deleted=True
    )
    reading = SliceContext.of(hoodie, timeline, schema)
    found = deleted_keys(
        hoodie.store,
        candidate,
        reading,
        WANTED,
        [RECORD_KEY],
        lambda rows: rows.column(RECORD_KEY).cast(pa.string()),
    )
    return None if found is None else found.tolist()


def test_logs_that_delete_nothing_are_not_merged(table: SmallTable) -> None:
    assert gone(table) is None
    table.write("upsert", batch([0], 6))
    (base,) = (file.path for file in table.lake().hoodie_table.files.base_files())
    # The headers of the log are enough.
    table.store().delete(base)
    assert gone(table) is None


def test_a_deleted_key_is_gone_until_it_is_back(table: SmallTable) -> None:
    table.write("delete", batch([0, 2], 0))
    assert gone(table) == [True, True, False, True]
    table.write("upsert", batch([2], 7))
    assert gone(table) == [True, False, False, True]


def test_a_delete_that_loses_by_its_ordering_value_deletes_nothing(table: SmallTable) -> None:
    rows = batch([0, 2], 4).set_column(2, "v", pa.array([4, 6], pa.int64()))
    table.write("upsert", rows.append_column("_hoodie_is_deleted", pa.array([True, True])))
    assert gone(table) == [False, True, False, True]
