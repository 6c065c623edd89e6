"""Hudi and Tideline write different partitions of one table in MinIO at the same time.

Each takes the lock by its own code, Hudi by its StorageBasedLockProvider. Neither loses a row of
the other or doubles one; all readers find what was committed, in the order in which it completed.
The waits for locks, and what a dead holder leaves: test_storage_lock_with_hudi.py.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest

from tideline.hudi.table.table_config import TableType
from tideline.testing.concurrent_table import (
    PARTITIONS,
    WITHOUT_COMPACTION,
    ConcurrentTable,
    on_tables,
)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.minio,
    pytest.mark.spark,
    pytest.mark.slow,
]

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ


@on_tables((6, COW), (6, MOR), (8, MOR), (9, COW), (9, MOR), options=WITHOUT_COMPACTION)
def test_writers_of_different_partitions_never_lose(concurrent_table: ConcurrentTable) -> None:
    """Ours writes partitions 0 and 1, Hudi 2 and 3."""
    table = concurrent_table
    random, numbers = Random(table.version), itertools.count(100, PARTITIONS)

    def write_ours() -> None:
        new = next(numbers)
        operation = random.choice(("upsert", "upsert", "insert", "delete"))
        keys = (new, new + 1) if operation == "insert" else (random.choice((0, 4, 8)), 1, 100)
        table.write(operation, keys)

    with table.alongside(write_ours, pause_s=0.3):
        assert table.write_with_hudi("upsert", (2, 3, 6, 502))
        assert table.write_with_hudi("delete", (2, 7, 502))
        # Hudi on its own doubles a key that is deleted in a log, inserted, then upserted: its
        # SIMPLE index looks into base files alone.
        assert table.write_with_hudi("insert", (503, 506))
        assert table.write_with_hudi("upsert", (2, 503, 7))
    assert len(table.ours) >= 4
    table.check()
