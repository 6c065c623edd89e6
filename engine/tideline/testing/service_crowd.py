"""Two writers and every service, each in a process of its own, on one merge-on-read table.

Writers and services meet, lose to each other and try again; in the end every committed row is there
once, with its newest value, and nothing is pending or left over.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from tideline.check_finding import Severity
from tideline.hudi.services.archival.service import ARCHIVAL
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.clustering.service import CLUSTERING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.table.table_config import TableType
from tideline.storage.location import StoreLocation
from tideline.testing import writer_process
from tideline.testing.reporting_writer import (
    WriterJob,
    expected_values,
    read_reports,
    write_until,
)
from tideline.testing.service_process import local_services, run_services_until
from tideline.testing.small_table import SmallTable
from tideline.testing.table_audit import open_fresh

DEADLINE_S = 240.0
SERVICES = {
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.clustering.inline.max.commits": "4",
    "hoodie.clustering.plan.strategy.sort.columns": "v",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "8",
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": "2",
}
REJECTS: dict[str, str] = {}
LETS_UPDATES_WIN = {
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    ),
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}
MOVE_ROWS = (COMPACTION, LOG_COMPACTION, CLUSTERING)
MOVE_NONE = (CLEANING, ARCHIVAL)


@dataclass(frozen=True, slots=True)
class Crowd:
    """The processes on one table, and what they wrote down."""

    processes: tuple[BaseProcess, ...]
    writers: tuple[Path, ...]
    services: tuple[Path, ...]
    stop: Path

    @classmethod
    def start(cls, location: StoreLocation, folder: Path, options: dict[str, str]) -> Crowd:
        """Two writers, two processes with all services that move rows, one with the others."""
        stop = folder / "stop"
        writers = tuple(folder / f"writer-{number}" for number in (1, 2))
        services = tuple(folder / f"services-{number}" for number in (1, 2, 3))
        for diary in (*writers, *services):
            diary.touch()
        turns = (MOVE_ROWS, tuple(reversed(MOVE_ROWS)), MOVE_NONE)
        return cls(
            (
                *(
                    writer_process.start(
                        write_until, WriterJob(location, number, options), str(stop), str(diary)
                    )
                    for number, diary in enumerate(writers, start=1)
                ),
                *(
                    writer_process.start(
                        run_services_until, location, turn, SERVICES, str(stop), str(diary)
                    )
                    for turn, diary in zip(turns, services, strict=True)
                ),
            ),
            writers,
            services,
            stop,
        )

    def runs(self) -> Counter[str]:
        """How often each service ran to its end."""
        lines = [line for diary in self.services for line in diary.read_text().splitlines()]
        return Counter(line for line in lines if " " not in line)

    def is_done(self, *, commits: int, runs: int) -> bool:
        """Whether each writer committed, and each service ran, often enough."""
        done = self.runs()
        return all(done[str(move_row)] >= runs for move_row in (*MOVE_ROWS, *MOVE_NONE)) and all(
            len(diary.read_text().splitlines()) >= commits for diary in self.writers
        )

    def end(self) -> None:
        """Let all processes finish their work."""
        self.stop.touch()
        assert [writer_process.join(process) for process in self.processes] == [0] * 5


def run_and_audit(
    location: StoreLocation,
    folder: Path,
    options: dict[str, str],
    *,
    commits: int,
    runs: int,
    deadline_s: float = DEADLINE_S,
) -> None:
    """Let them work on a new table until each did so much, then compare it with what they wrote."""
    table = SmallTable.create(location, table_type=TableType.MERGE_ON_READ)
    ends_s = time.monotonic() + deadline_s
    crowd = Crowd.start(table.location, folder, options)
    try:
        while not crowd.is_done(commits=commits, runs=runs):
            assert all(process.exitcode is None for process in crowd.processes)
            assert time.monotonic() < ends_s, (crowd.runs(), read_reports(crowd.writers)[-1:])
            _look(table)
            time.sleep(0.2)
    finally:
        crowd.end()
    expected = expected_values(read_reports(crowd.writers))
    assert table.values() == expected
    _finish(table)
    assert table.values() == expected
    assert table.lake().check(keys=True) == ()
    assert not len(open_fresh(table.location).timeline().pending())


def _look(table: SmallTable) -> None:
    """At any time, no reader sees a key twice."""
    keys = [key for key, _ in table.values()]
    assert len(keys) == len(set(keys))


def _finish(table: SmallTable) -> None:
    """What the next ones to come do: finish what conflicts left pending, and clean up."""
    services = local_services(table, SERVICES)
    for service in MOVE_ROWS:
        services.run_pending(service)
    services.run(CLEANING)
    services.run(ROLLBACK)
    errors = [x for x in table.lake().check(keys=True) if x.severity is Severity.ERROR]
    assert not errors, errors
    table.lake().repair()
