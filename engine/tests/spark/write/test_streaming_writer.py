"""A long-lived writer: a Spark stream that commits every micro-batch and schedules services.

A second process executes what is scheduled, as long as the stream runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import tideline
from tideline.commit_report import CommitReport
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.storage.location import StoreLocation
from tideline.testing import writer_process
from tideline.testing.service_process import local_services, run_services_until
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = 10
SETTINGS = {
    # New rows go to new file groups, updates to log files.
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.schedule.inline": "true",
    "hoodie.clustering.async.max.commits": "4",
    "hoodie.clustering.inline.max.commits": "4",
    # The stream continues; a clustering that it meets is planned again later.
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    ),
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
    "hoodie.write.num.retries.on.conflict.failures": "5",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}
SCHEDULED = (COMPACTION, CLUSTERING)
DEADLINE_S = 240.0


def rows_of(number: int) -> pa.Table:
    """The micro-batch `number`: some keys that every one updates, and some new ones."""
    return batch([0, 1, number % 5 + 2, 100 + 2 * number, 101 + 2 * number], number)


def arrive(folder: Path, numbers: range) -> None:
    """Put the files of these micro-batches where the stream looks, oldest first."""
    for number in numbers:
        hidden = folder.with_name(f"batch-{number}.parquet")
        pq.write_table(rows_of(number), hidden)
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(folder / hidden.name)


def expected(count: int) -> list[tuple[str, int]]:
    rows: dict[str, int] = {}
    for number in range(count):
        for row in rows_of(number).to_pylist():
            rows[row["id"]] = row["v"]
    return sorted(rows.items())


def start(
    spark: SparkSession, table: SmallTable, folder: Path, reports: list[CommitReport]
) -> StreamingQuery:
    lake = tideline.open(table.location.uri)

    def write(frame: DataFrame, _: int) -> None:
        reports.append(lake.write(frame, "upsert"))

    stream = (
        spark.readStream.schema("id string, part string, v long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
    )
    checkpoint = str(folder.with_name("checkpoint"))
    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    return query.start()


def wait_for(query: StreamingQuery, reports: list[CommitReport], count: int) -> None:
    ends_s = time.monotonic() + DEADLINE_S
    while len(reports) < count:
        assert query.exception() is None
        assert time.monotonic() < ends_s, f"{len(reports)} of {count} batches"
        time.sleep(0.1)


@contextmanager
def executing(table: SmallTable, folder: Path) -> Iterator[Path]:
    """Another process executes what the stream schedules; gives the file it notes runs in."""
    stop, diary = folder / "stop", folder / "diary"
    process = writer_process.start(
        run_services_until, table.location, SCHEDULED, SETTINGS, str(stop), str(diary), True
    )
    try:
        yield diary
    finally:
        stop.touch()
        assert writer_process.join(process) == 0


def test_services_that_a_stream_schedules_run_alongside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = SmallTable.create(
        StoreLocation.of(tmp_path / "table"),
        properties=SETTINGS,
        table_type=TableType.MERGE_ON_READ,
    )
    landing = tmp_path / "landing"
    landing.mkdir()
    arrive(landing, range(BATCHES // 2))
    reports: list[CommitReport] = []
    with executing(table, tmp_path) as diary:
        query = start(spark, table, landing, reports)
        wait_for(query, reports, 2)
        # It dies somewhere, and continues from its checkpoint; a batch may come once more.
        query.stop()
        query = start(spark, table, landing, reports)
        arrive(landing, range(BATCHES // 2, BATCHES))
        query.processAllAvailable()
        query.stop()
        assert query.exception() is None
    assert len(reports) >= BATCHES
    after_commits = [service for report in reports for service in report.services]
    assert not [service for service in after_commits if service.failure]
    scheduled = {service.service for service in after_commits if service.scheduled is not None}
    assert scheduled == set(SCHEDULED)
    ran = set(diary.read_text().splitlines())
    assert "compaction" in ran
    assert table.values() == expected(BATCHES)

    services = local_services(table, SETTINGS)
    for service in SCHEDULED:
        services.run_pending(service)
    services.run(ROLLBACK)
    assert table.values() == expected(BATCHES)
    opened = open_fresh(table.location)
    assert not len(opened.timeline().pending())
    assert len(opened.timeline().of(Action.CLEAN).completed())
    assert opened.commits.archive().files()
    assert table.lake().check(keys=True) == ()
    found = tideline.open(table.location.uri).snapshot(spark).select("id", "v").collect()
    assert sorted((row["id"], row["v"]) for row in found) == expected(BATCHES)
