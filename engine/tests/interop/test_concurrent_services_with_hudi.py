"""Services, and the statistics that Hudi keeps, of a table in MinIO that both write meanwhile."""

from __future__ import annotations

import itertools

import pytest

from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
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


@on_tables((8, MOR), (9, COW), (9, MOR), options=HUDIS_DEFAULTS)
def test_statistics_of_hudi_never_hide_what_is_written_meanwhile(
    concurrent_table: ConcurrentTable,
) -> None:
    """Each commit of ours drops them; Hudi rebuilds them, or gives up when it cannot."""
    table = concurrent_table

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


@on_tables((6, MOR), (8, MOR), (9, MOR))
def test_services_of_one_run_while_the_other_writes(concurrent_table: ConcurrentTable) -> None:
    """Compaction, cleaning and archival of ours next to Hudi's writes, then the reverse."""
    table = concurrent_table
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
    # Until its tenth commit is compacted the metadata table needs every instant.
    for turn in range(10):
        if any(table.table.commits.archive().completed()):
            break
        table.write_until_done("upsert", (turn, turn + 1))
        served = serve()
    table.check()
    timeline = table.table.timeline()
    completed = timeline.completed()
    assert len(completed.of(Action.CLEAN)), f"nothing was cleaned: {served}"
    left = [str(instant) for instant in timeline]
    assert any(table.table.commits.archive().completed()), f"nothing was archived: {served}, {left}"

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
