"""Hudi and Tideline write one table in MinIO at the same time, under Hudi's storage lock.

Each takes the lock by its own code, Hudi by its StorageBasedLockProvider. Neither loses a row of
the other or doubles one; all readers find what was committed, in the order in which it completed.
Who waits for whose lock, and what a dead holder leaves: test_storage_lock_with_hudi.py.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

import pytest

from tideline.errors import ConflictError
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action, State
from tideline.storage.location import StoreLocation
from tideline.testing.concurrent_table import FILES_ALONE, PARTITIONS, ConcurrentTable
from tideline.testing.hudi_peer import HudiPeer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.minio,
    pytest.mark.spark,
    pytest.mark.slow,
]

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
KEYS = range(12)
WITHOUT_COMPACTION = {**FILES_ALONE, "hoodie.compact.inline": "false"}
"""Our appends lose to a compaction that is scheduled meanwhile."""
HUDIS_DEFAULTS: dict[str, str] = {}


@pytest.fixture
def table(
    request: pytest.FixtureRequest, s3_location: StoreLocation, hudi_peer_on_s3: HudiPeer
) -> ConcurrentTable:
    version, table_type, options = request.param
    return ConcurrentTable.made_by_hudi(
        s3_location, hudi_peer_on_s3, version, table_type, KEYS, options
    )


def on_tables(
    *tables: tuple[int, TableType], options: Mapping[str, str] = FILES_ALONE
) -> pytest.MarkDecorator:
    given = [(*described, options) for described in tables]
    return pytest.mark.parametrize("table", given, ids="v{0[0]} {0[1]}".format, indirect=True)


@on_tables((6, COW), (6, MOR), (8, MOR), (9, COW), (9, MOR), options=WITHOUT_COMPACTION)
def test_writers_of_different_partitions_never_lose(table: ConcurrentTable) -> None:
    """Ours writes partitions 0 and 1, Hudi 2 and 3."""
    random, numbers = Random(table.version), itertools.count(100, PARTITIONS)

    def write_ours() -> None:
        new = next(numbers)
        operation = random.choice(("upsert", "upsert", "insert", "delete"))
        keys = (new, new + 1) if operation == "insert" else (random.choice((0, 4, 8)), 1, 100)
        table.write(operation, keys)

    with table.alongside(write_ours, pause_s=0.3):
        assert table.write_with_hudi("upsert", (2, 3, 6, 502))
        assert table.write_with_hudi("delete", (2, 7, 502))
        # Hudi by itself doubles a key that is deleted in a log, inserted, then upserted: its SIMPLE
        # index looks into base files alone.
        assert table.write_with_hudi("insert", (503, 506))
        assert table.write_with_hudi("upsert", (2, 503, 7))
    assert len(table.ours) >= 4
    table.check()


@on_tables((6, COW), (6, MOR), (8, COW), (9, COW), (9, MOR), options=HUDIS_DEFAULTS)
def test_who_commits_later_loses_and_tries_again(table: ConcurrentTable) -> None:
    with ThreadPoolExecutor(1) as pool:
        writing: list[Future[bool]] = []

        def inflight() -> int:
            return sum(one.state is State.INFLIGHT for one in table.pending())

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


@on_tables((8, MOR), (9, COW), (9, MOR), options=HUDIS_DEFAULTS)
def test_statistics_of_hudi_never_hide_what_is_written_meanwhile(table: ConcurrentTable) -> None:
    """Each commit of ours drops them; Hudi makes them anew, or gives up when it cannot."""

    def write_ours() -> None:
        table.write_until_done("upsert", (0, 1, 4, 5))

    with table.alongside(write_ours, pause_s=0.5):
        for turn in range(5):
            table.write_with_hudi("upsert", (2, 3, 600 + turn * PARTITIONS))
    table.check()
    table.write_with_hudi_until_done("upsert", (2, 3, 6, 7))
    assert "column_stats" in table.table.config.metadata_partitions
    table.check()
    table.write_until_done("upsert", (0, 1, 2, 3))
    table.finish()


@on_tables((6, COW), (8, MOR), (9, COW), (9, MOR))
def test_writers_of_the_same_keys_add_up(table: ConcurrentTable) -> None:
    """Both take keys of one random partition at a time, and try again what they lose."""
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


@on_tables((6, MOR), (8, MOR), (9, MOR))
def test_services_of_one_run_while_the_other_writes(table: ConcurrentTable) -> None:
    """Compaction, cleaning and archival of ours next to Hudi's writes, then the reverse."""
    ours = {
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
    }

    def serve() -> list[dict[str, object]]:
        services = (COMPACTION, CLEANING, ARCHIVAL)
        return [table.run_service(service, ours).to_json_object() for service in services]

    # Hudi would also run a compaction of ours that is pending, and fail on its heartbeat.
    idle = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}
    with table.alongside(serve, pause_s=0.5):
        for turn in range(5):
            table.write_with_hudi_until_done("upsert", (turn, turn + 1, 800 + turn), **idle)
    served = serve()
    table.check()
    timeline = table.table.timeline()
    completed = timeline.completed()
    assert len(completed.of(Action.CLEAN)), f"nothing was cleaned: {served}"
    left = [str(instant) for instant in timeline]
    assert any(table.table.archived().completed()), f"nothing was archived: {served}, {left}"

    compacted = completed.of(Action.COMMIT).newest_time()
    hudis = {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
    }

    numbers = itertools.count(900, PARTITIONS)

    def write_ours() -> None:
        new = next(numbers)
        table.write_until_done("upsert", (0, 5, new, new + 1))

    with table.alongside(write_ours, pause_s=2.0):
        for turn in range(3):
            keys = (2, 3, 850 + PARTITIONS * turn)
            table.write_with_hudi_until_done("upsert", keys, **hudis)
    later = table.table.timeline().completed().of(Action.COMMIT)
    assert later.newest_time() != compacted, "Hudi compacted nothing"
    table.check()
    table.finish()
