"""MERGE INTO of Hudi's SQL and writes of Tideline at the same time, of other keys and of the same.

The table is in MinIO and both take its storage lock, as in test_concurrent_writers_with_hudi.py.
"""

from __future__ import annotations

import itertools
import time
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

import pytest

from tideline.errors import ConflictError
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import State
from tideline.testing.concurrent_table import (
    MERGE,
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


@on_tables((6, COW), (8, MOR), (9, COW), (9, MOR), options=WITHOUT_COMPACTION)
def test_merges_of_other_partitions_never_lose(concurrent_table: ConcurrentTable) -> None:
    """Ours writes partitions 0 and 1, Hudi 2 and 3: stored keys and new ones."""
    table, new = concurrent_table, itertools.count(100, PARTITIONS)

    def write_ours() -> None:
        table.write("upsert", (0, 5, next(new)))
        table.write("delete", (4, 100))

    with table.alongside(write_ours, pause_s=0.3):
        for number in range(4):
            assert table.write_with_hudi(MERGE, (2, 7, 502, 503 + PARTITIONS * number))
    assert len(table.ours) >= 4
    table.check()


@on_tables((6, COW), (9, COW), (9, MOR))
def test_a_merge_that_commits_later_loses_and_tries_again(
    concurrent_table: ConcurrentTable,
) -> None:
    table = concurrent_table
    with ThreadPoolExecutor(1) as pool:
        merging: list[Future[bool]] = []

        def inflight() -> int:
            return sum(instant.state is State.INFLIGHT for instant in table.pending())

        def let_hudi_begin() -> None:
            """Ours has only its commit to make then. Hudi has looked at the table, not before."""
            merging.append(pool.submit(table.write_with_hudi, MERGE, (0, 1, 2, 600)))
            while inflight() < 2 and not merging[0].done():
                time.sleep(0.05)

        table.write("upsert", (0, 5, 600, 601), after_files=let_hudi_begin)
        assert not merging[0].result(), "Hudi commits over what it has not seen"
    table.check()
    with pytest.raises(ConflictError):
        table.write(
            "upsert", (0, 700), after_files=lambda: table.write_with_hudi(MERGE, (0, 4, 700))
        )
    table.check()
    table.write("upsert", (0, 700))
    assert table.write_with_hudi(MERGE, (0, 1, 600, 700))
    table.finish()


@on_tables((6, COW), (8, COW), (9, COW), (9, MOR))
def test_merges_and_writes_of_the_same_keys_add_up(concurrent_table: ConcurrentTable) -> None:
    """Both take keys of one random partition at a time, stored ones and new ones, and try again
    what they lose."""
    table = concurrent_table
    random, hudis_random = Random(3), Random(4)

    def keys(chance: Random) -> list[int]:
        partition = chance.randrange(PARTITIONS)
        return sorted({partition + PARTITIONS * chance.randrange(6) for _ in range(3)})

    def write_ours() -> None:
        table.write_until_done(random.choice(("upsert", "upsert", "delete")), keys(random))
        time.sleep(random.uniform(0, typical_s))

    started_s = time.monotonic()
    table.write_with_hudi_until_done(MERGE, (0, 1))
    typical_s = time.monotonic() - started_s
    with table.alongside(write_ours, pause_s=0.1):
        for _ in range(6):
            table.write_with_hudi_until_done(MERGE, keys(hudis_random))
    table.check()
    table.finish()
