"""Rows in Arrow without Spark: those of the table, filtered, as of an instant, slice by slice."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError, CorruptTableError
from tideline.formats.read_ahead import THREAD_NAME
from tideline.hudi.read.arrow_scan import ArrowScan
from tideline.hudi.read.partition_values import PartitionLayout
from tideline.hudi.read.slice_rows import SliceTask
from tideline.hudi.read.snapshot import plan_snapshot
from tideline.hudi.table.table_config import TableType
from tideline.lake_table import LakeTable
from tideline.testing.small_table import SCHEMA, SmallTable, batch
from tideline.testing.table_audit import merged_rows

PARTITIONS = 4


@pytest.fixture(params=list(TableType))
def small(request: pytest.FixtureRequest) -> Iterator[SmallTable]:
    table = SmallTable.in_memory(table_type=request.param)
    table.write("insert", batch(range(40), 1, partitions=PARTITIONS))
    table.write("upsert", batch(range(0, 60, 3), 2, partitions=PARTITIONS))
    table.write("delete", batch([0, 7, 30], 3, partitions=PARTITIONS))
    yield table
    table.forget()


def test_all_rows_with_all_columns(small: SmallTable) -> None:
    lake = small.lake()
    rows = lake.to_arrow()
    expected = merged_rows(lake.hoodie_table)
    assert rows.num_rows > 40
    assert rows.schema.names == expected.schema.names
    order = [("_hoodie_record_key", "ascending")]
    assert rows.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
    assert lake.to_arrow().equals(rows), "in one order"


def test_only_the_columns_asked_for_in_their_order(small: SmallTable) -> None:
    rows = small.lake().to_arrow(["v", "id"])
    assert rows.schema.names == ["v", "id"]
    assert sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == small.values()


def test_values_of_partition_columns_are_those_of_the_path() -> None:
    """Tasks of Spark have them as well: a MERGE of Hudi may leave nulls in logs of version 6."""
    table = SmallTable.in_memory()
    table.write("insert", batch([0, 2], 1))
    hoodie = table.lake().hoodie_table
    (file_slice,) = hoodie.files.view(hoodie.timeline()).latest_slices("p0")
    assert file_slice.base_file is not None
    stored = pq.read_table(pa.BufferReader(table.store().get(file_slice.base_file.path)))
    nulls = pa.nulls(stored.num_rows, pa.string())
    changed = stored.set_column(stored.schema.get_field_index("part"), "part", nulls)
    sink = pa.BufferOutputStream()
    pq.write_table(changed, sink)
    table.store().put(file_slice.base_file.path, sink.getvalue().to_pybytes())
    assert table.lake().to_arrow(["part"])["part"].to_pylist() == ["p0", "p0"]
    layout = PartitionLayout.of(hoodie.config, SCHEMA)
    task = pickle.loads(pickle.dumps(SliceTask.of(file_slice, layout)))
    assert task.constants == {"part": pa.scalar("p0")}


NUMBERS = st.sampled_from([0, 1, 2, 3])
CONDITIONS = st.recursive(
    st.one_of(
        NUMBERS.map(lambda n: pc.field("v") > n),
        NUMBERS.map(lambda n: pc.field("part") == f"p{n}"),
        st.just(pc.field("part").is_null()),
        st.just(pc.field("_hoodie_partition_path") == "p1"),
        st.integers(0, 60).map(lambda n: pc.field("id") < f"k{n:03d}"),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda item: ~item),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def filtered() -> Iterator[LakeTable]:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("insert", batch(range(40), 1, partitions=PARTITIONS))
    table.write("upsert", batch(range(0, 60, 3), 2, partitions=PARTITIONS))
    yield table.lake()
    table.forget()


@given(condition=CONDITIONS, columns=st.sampled_from([None, ["id"], ["v", "part"]]))
def test_a_condition_selects_what_it_selects_of_the_whole_table(
    filtered: LakeTable, condition: pc.Expression, columns: list[str] | None
) -> None:
    whole = filtered.to_arrow().filter(condition)
    wanted = whole if columns is None else whole.select(columns)
    assert filtered.to_arrow(columns, condition).to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize(
    ("condition", "partitions"),
    [
        (pc.field("part") == "p1", {"p1"}),
        ([("part", "in", {"p1", "p3"})], {"p1", "p3"}),
        ([[("part", "=", "p1")], [("v", ">", 1)]], {"p0", "p1", "p2", "p3"}),
        ((pc.field("part") != "p0") & (pc.field("v") > 1), {"p1", "p2", "p3"}),
        (pc.field("part").is_null(), set()),
        (pc.field("v") > 100, {"p0", "p1", "p2", "p3"}),
    ],
)
def test_partitions_that_a_condition_rules_out_are_not_read(
    filtered: LakeTable, condition: Any, partitions: set[str]
) -> None:
    table = filtered.hoodie_table
    scan = ArrowScan.of(table, plan_snapshot(table), ["id"], condition)
    assert {task.file_slice.group.partition for task in scan.tasks} == partitions


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"columns": ["id", "nope"]}, "no such column.* there are id"),
        ({"columns": []}, "no column is named"),
        ({"columns": ["id", "id"]}, "a column is named twice"),
        ({"filter": pc.field(5) > "a"}, "name the columns"),
        ({"filter": pc.field("nope") > 1}, "No match for FieldRef"),
        ({"filter": [("v", ">", "many")]}, "no condition on the table's rows"),
        ({"filter": "v >"}, "cannot be read at character 4"),
        ({"as_of": "yesterday"}, "not a time"),
    ],
)
def test_what_the_table_does_not_have_is_refused(
    filtered: LakeTable, asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        filtered.scan(**asked)


def test_the_table_as_of_an_instant(small: SmallTable) -> None:
    lake = small.lake()
    first = lake.timeline().completed().first()
    assert first is not None
    rows = lake.to_arrow(as_of=first.time)
    assert rows["v"].to_pylist() == [1] * 40


def test_an_empty_table_has_no_rows_and_its_columns() -> None:
    table = SmallTable.in_memory()
    rows = table.lake().to_arrow(["id", "v"])
    assert (rows.num_rows, rows.schema.names) == (0, ["id", "v"])
    table.forget()


def test_a_missing_file_is_an_error_when_its_rows_are_reached(small: SmallTable) -> None:
    lake = small.lake()
    reader = lake.scan(["id"])
    for file in lake.hoodie_table.files.base_files():
        small.store().delete(file.path)
    with pytest.raises(CorruptTableError, match="base file is missing"):
        reader.read_all()


def test_a_scan_that_is_given_up_leaves_no_thread() -> None:
    table = SmallTable.in_memory()
    one_file = {"hoodie.copyonwrite.record.size.estimate": "64"}
    table.write("insert", batch(range(400_000), 1, partitions=1), options=one_file)
    earlier = _reading_threads()
    reader = table.lake().scan(["v"])
    assert reader.read_next_batch().num_rows
    assert _reading_threads() - earlier, "more batches than a thread reads ahead"
    del reader
    gc.collect()
    assert _reading_threads() <= earlier
    table.forget()


def test_rows_are_those_of_the_moment_of_the_call(small: SmallTable) -> None:
    expected = small.values()
    reader = small.lake().scan(["id", "v"])
    small.write("upsert", batch(range(60), 9, partitions=PARTITIONS))
    rows: pa.Table = reader.read_all()
    assert sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == expected


def _reading_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == THREAD_NAME}
