"""Hudi and Tideline write the same keys at the same time: one of them loses and tries again.

The table is in MinIO and both take its storage lock, as in test_concurrent_writers_with_hudi.py.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

import pytest

from tideline.errors import ConflictError
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import State
from tideline.testing.concurrent_table import (
    HUDIS_DEFAULTS,
    PARTITIONS,
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


@on_tables((6, COW), (6, MOR), (8, COW), (9, COW), (9, MOR), options=HUDIS_DEFAULTS)
def test_who_commits_later_loses_and_tries_again(concurrent_table: ConcurrentTable) -> None:
    table = concurrent_table
    with ThreadPoolExecutor(1) as pool:
        writing: list[Future[bool]] = []

        def inflight() -> int:
            return sum(instant.state is State.INFLIGHT for instant in table.pending())

        def let_hudi_begin() -> None:
            """Ours has only its commit to make then. Hudi has looked at the table, not before."""
            writing.append(pool.submit(table.write_with_hudi, "upsert", (0, 1, 2, 3, 600)))
            while inflight() < 2 and not writing[0].done():
                time.sleep(0.05)

        table.write("upsert", (0, 1, 5, 601), after_files=let_hudi_begin)
        assert not writing[0].result(), "Hudi commits over what it has not seen"
    table.check()
    with pytest.raises(ConflictError):
        table.write(
            "upsert",
            (0, 2, 701),
            after_files=lambda: table.write_with_hudi("delete", (0, 4)),
        )
    table.check()
    table.write("upsert", (0, 2, 701))
    assert table.write_with_hudi("upsert", (0, 1, 600))
    table.finish()


@on_tables((6, COW), (8, MOR), (9, COW), (9, MOR))
def test_writers_of_the_same_keys_add_up(concurrent_table: ConcurrentTable) -> None:
    """Both take keys of one random partition at a time, and try again what they lose."""
    table = concurrent_table
    random, hudis_random = Random(1), Random(2)

    def write_ours() -> None:
        partition = random.randrange(PARTITIONS)
        operation = random.choice(("upsert", "upsert", "delete"))
        keys = {partition + PARTITIONS * random.randrange(4) for _ in range(2)}
        table.write_until_done(operation, sorted(keys))
        time.sleep(random.uniform(0, typical_s))

    started_s = time.monotonic()
    table.write_with_hudi_until_done("upsert", (0, 1))
    typical_s = time.monotonic() - started_s
    with table.alongside(write_ours, pause_s=0.1):
        for _ in range(5):
            partition = hudis_random.randrange(PARTITIONS)
            operation = hudis_random.choice(("upsert", "upsert", "delete"))
            keys = {partition + PARTITIONS * hudis_random.randrange(4) for _ in range(2)}
            table.write_with_hudi_until_done(operation, sorted(keys))
    table.check()
    table.finish()
