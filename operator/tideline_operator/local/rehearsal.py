"""What would become of the first files of a landing prefix: read, checked, and nothing written.

The worker of a run reads them, in a process of its own that ends with the rehearsal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tideline.clock import Clock
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import WORKER_DIED, OperationResult, Outcome
from tideline.ingest.sources.resume import Refused
from tideline.ingest.sources.source import Lost, Nothing
from tideline.wording import counted, counted_of, size_text
from tideline_operator.decide.observed import Observed, ObservedSource
from tideline_operator.decide.planned_operation import ingest_operation
from tideline_operator.decide.planner import ahead_of, resume_of_ingest
from tideline_operator.launch.launcher import Died, Finished, Launcher
from tideline_operator.launch.local_process import LocalProcessLauncher
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.resolved import ResolvedTable

FILES_MAX = 10
BYTES_MAX = 256 * 1024 * 1024
_EVENT_TIMEOUT_S = 0.2


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """Some files of an ingest, of `waiting` in all, and what would become of them."""

    ingest: str
    tried: int
    waiting: int
    result: OperationResult

    def lines(self) -> list[str]:
        """For people."""
        result, name = self.result, self.ingest
        files = counted_of(self.tried, self.waiting, "file")
        if result.outcome is Outcome.FAILED:
            return [f"{name}: {files} cannot be taken in: {result.message}"]
        found = result.audit[0]
        size = size_text(result.source_bytes)
        lines = [f"{name}: {files} read ({size}): {counted(result.rows_written, 'row')}"]
        if found["columns"]:
            columns = ", ".join(f"{column} {kind}" for column, kind in found["columns"])
            lines.append(f"  columns: {columns}")
        if found["record_key"]:
            keys, rows = found["record_keys"], result.rows_written
            again = f", {rows - keys:,} of the rows repeat one" if keys < rows else ""
            lines.append(
                f"  {', '.join(found['record_key'])}: {counted(keys, 'record key')}{again}"
            )
        lines += [f"  would set aside {note}" for note in result.notes]
        lines += [
            f"  would set aside {skipped_file.path}: {skipped_file.reason}"
            for skipped_file in result.skipped
        ]
        return lines

    def to_json_object(self) -> dict[str, Any]:
        """For machines."""
        result = self.result.to_json_object()
        result.pop("id")
        (found,) = result.pop("audit", [{}])
        about = {"ingest": self.ingest, "files_waiting": self.waiting, "files_tried": self.tried}
        return {**about, **result, **found}


def rehearse(
    table: ResolvedTable, observed: Observed, launcher: Launcher, clock: Clock
) -> Iterator[Rehearsal]:
    """Try the first files of every ingest that has some."""
    for ingest in table.spec.ingest:
        found = _operation(table, ingest, observed, clock)
        if found is not None:
            operation, tried, waiting = found
            launcher.start(operation)
            yield Rehearsal(ingest.name, tried, waiting, _await_result(launcher, operation.id))


def sql_checks(table: ResolvedTable) -> list[Operation]:
    """Dry ingests of no files, which find out whether the SQL of the table's ingests is any."""
    return [
        _dry(ingest_operation(table, ingest, table.sources[ingest.name].no_range(), generation=0))
        for ingest in table.spec.ingest
        if ingest.transform is not None or ingest.delete_when is not None
    ]


@contextmanager
def worker(places: Iterable[Location]) -> Iterator[Launcher]:
    """A worker whose log is kept nowhere."""
    with TemporaryDirectory(prefix="tideline-") as folder:
        launcher = LocalProcessLauncher(Path(folder) / "worker.log", places)
        try:
            yield launcher
        finally:
            launcher.close()


def _operation(
    table: ResolvedTable, ingest: Ingest, observed: Observed, clock: Clock
) -> tuple[Operation, int, int] | None:
    """A dry ingest of the first files, how many they are, and how many wait."""
    seen = observed.sources.get(ingest.name, ObservedSource())
    resume = resume_of_ingest(table, ingest, observed)
    if seen.available is None or isinstance(resume, Refused):
        return None
    ahead = ahead_of(seen.available.at_once(), resume, parts_max=FILES_MAX, now_ms=clock.now_ms())
    if isinstance(ahead.next, Nothing | Lost):
        return None
    taken = ahead.next.limited(BYTES_MAX)
    operation = _dry(ingest_operation(table, ingest, taken, generation=resume.generation))
    return operation, len(taken.names), ahead.backlog.parts


def _dry(operation: Operation) -> Operation:
    assert isinstance(operation.work, IngestRange)
    return replace(operation, work=replace(operation.work, is_dry=True))


def _await_result(launcher: Launcher, operation_id: str) -> OperationResult:
    while True:
        match launcher.next_event(_EVENT_TIMEOUT_S):
            case Finished(result=result) if result.id == operation_id:
                return result
            case Died(operation_id=lost, message=message) if lost == operation_id:
                return OperationResult(
                    operation_id, Outcome.FAILED, message, exit_code=1, error=WORKER_DIED
                )
