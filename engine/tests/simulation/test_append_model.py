"""Any history of writes leaves a merge-on-read table with the rows of a plain dictionary."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tideline.formats.avro import encode_container
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.testing.history_model import PARTITIONS, after_write
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import missing_files, open_fresh, unexplained_objects

KEYS = st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True)
OPERATIONS = st.sampled_from(
    [
        "upsert",
        "upsert",
        "upsert",
        "insert",
        "delete",
        "insert_overwrite",
        "delete_partition",
        "compaction",
    ]
)
LIMITS = st.sampled_from(["0", "1000000"])
FORMATS = st.sampled_from(["parquet", "avro"])
HISTORIES = st.lists(st.tuples(OPERATIONS, KEYS, LIMITS, FORMATS), min_size=1, max_size=8)

# A log deletes the key, an insert puts it into another file group; both base files have it then.
DELETED_AND_BACK = [
    (operation, [0, 2, 4], "0", "avro")
    for operation in ("insert", *["delete", "insert"] * 4, "upsert")
]


@pytest.mark.slow_with("v9-BUCKET")
@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
@settings(max_examples=60, deadline=None)
@given(history=HISTORIES)
@example(history=DELETED_AND_BACK)
def test_a_history_of_writes_gives_the_rows_of_the_model(
    index: str, history: list[tuple[str, list[int], str, str]]
) -> None:
    properties = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": "2"}
    table = SmallTable.in_memory(properties, table_type=TableType.MERGE_ON_READ)
    model: dict[str, int] = {}
    is_compacting = False
    for version, (operation, keys, limit, log_format) in enumerate(history, start=1):
        options = {
            "hoodie.parquet.small.file.limit": limit,
            "hoodie.logfile.data.block.format": log_format,
        }
        if operation == "insert":
            # Of a key that is there it would make a second row, as it should.
            keys = [key for key in keys if f"k{key:03d}" not in model]
        rows = batch(keys, version, partitions=PARTITIONS)
        if operation == "compaction":
            is_compacting = is_compacting or schedule_compaction(table)
        elif operation == "delete_partition":
            partitions = set(open_fresh(table.location).files.partitions())
            if not is_compacting and partitions >= set(rows["part"].to_pylist()):
                table.write(operation, rows, options=options)
                model = after_write(model, operation, rows)
        else:
            table.write(operation, rows, options=options)
            model = after_write(model, operation, rows)
        assert table.values() == sorted(model.items())
    opened = open_fresh(table.location, clock=table.clock)
    left = [path for path in unexplained_objects(opened) if ".compaction." not in path]
    assert left == []
    assert missing_files(opened) == []
    table.forget()


def schedule_compaction(table: SmallTable) -> bool:
    """A compaction of every file group that has logs, left pending."""
    opened = open_fresh(table.location, clock=table.clock)
    view = opened.files.view(opened.timeline())
    operations = [
        {
            "baseInstantTime": str(file_slice.base_instant),
            "deltaFilePaths": [log.name for log in file_slice.log_files],
            "dataFilePath": file_slice.base_file.name if file_slice.base_file else None,
            "fileId": file_slice.file_id,
            "partitionPath": partition,
        }
        for partition in view.partitions
        for file_slice in view.latest_slices(partition)
        if file_slice.log_files
    ]
    if operations:
        body = encode_container("HoodieCompactionPlan", {"operations": operations, "version": 2})
        time = opened.instants.next_time()
        opened.timelines.create_requested(time, Action.COMPACTION, body)
    return bool(operations)
