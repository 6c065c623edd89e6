"""A warm worker stays on a table while records come: the commits behind that of an operation.

1. The operator says with the assignment for how long a worker may stay, and how often it looks at
   the source: where nothing else waits for a worker, and as the trigger of the ingest says.
2. After the commit of the operation the worker looks at the source itself, from the position that
   the table's newest commit has, and plans what is next as the operator does. The range is fixed
   before it is read, and the commit is bound to the checkpoint that it was planned with: whatever
   dies, or writes meanwhile, each record is in once.
3. It leaves when the time is over, nothing has come for a while, the LakeTable has changed, or
   something went wrong. What that was the next operation meets, and reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline.ingest.execute.open_ingest_table import open_ingest_table
from tideline.ingest.execute.table_access import Progress
from tideline.ingest.operation.assignment import Stay
from tideline.ingest.operation.operation import IngestRange, Operation
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.ingest.sources.checkpoint import newest_of
from tideline.ingest.sources.own_reach import own_reach
from tideline.ingest.sources.source import Limits, Lost, Nothing

IDLE_S = 2.0
"""How long a worker waits for the next records of a table."""
_PAUSE_S = 0.1
_SUMS = (
    "files_written",
    "rows_written",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "rows_set_aside",
    "bytes_written",
    "seconds",
    "core_seconds",
    "requests",
    "index_lookups",
    "index_fallbacks",
    "source_bytes",
    "source_records",
)

Execute = Callable[[Operation], OperationResult]


def stay_on_table(
    operation: Operation,
    first: OperationResult,
    stay: Stay,
    execute: Execute,
    clock: Clock,
    *,
    may_stay: Callable[[], bool],
    progress: Progress,
) -> OperationResult:
    """The result of an operation and of the commits behind it, as one.

    `execute` carries out each; `may_stay` is asked before each. A KeyboardInterrupt ends the stay,
    not what was committed.
    """
    work = operation.work
    if not isinstance(work, IngestRange) or not work.source.is_followed or not work.range.names:
        return first
    if first.outcome is not Outcome.SUCCEEDED:
        return first
    result, commits = first, 1
    now_s = clock.monotonic_s()
    until_s = now_s + stay.for_ms / 1000
    followed = _Followed(operation, work, stay, clock, until_s, now_s - first.seconds)
    try:
        while clock.monotonic_s() < until_s and may_stay():
            following = followed.next()
            if following is None or not may_stay():
                break
            found = execute(following)
            if found.outcome is not Outcome.SUCCEEDED:
                progress(f"leaves {operation.table.name}: {found.message}")
                break
            result, commits = _together(result, found), commits + 1
    except KeyboardInterrupt:
        progress(f"leaves {operation.table.name}: asked to stop")
    except TidelineError as error:
        progress(f"leaves {operation.table.name}: {error}")
    if commits == 1:
        return result
    return replace(result, notes=(*result.notes, f"{commits} commits while records came"))


@dataclass(slots=True)
class _Followed:
    """The source behind an operation. Looks are as far apart as the stay says, unless the last one
    found more than a commit may have."""

    operation: Operation
    work: IngestRange
    stay: Stay
    clock: Clock
    until_s: float
    looked_s: float
    has_more: bool = True

    def next(self) -> Operation | None:
        """What comes next, as an operation of the same id; None where nothing does in time. Raises
        TidelineError."""
        work = self.work
        checkpoints = open_ingest_table(self.operation).checkpoints(work)
        checkpoint = newest_of(checkpoints, work.name, work.former_name)
        if checkpoint is None:
            return None
        patience_s = max(IDLE_S, 2 * self.stay.every_ms / 1000)
        until_s = min(self.until_s, self.clock.monotonic_s() + patience_s)
        reach = own_reach()
        while self._waits(until_s):
            available = work.source.positions(reach, checkpoint.position)
            limits = Limits(1, self.clock.now_ms())
            planned = available.plan(checkpoint.position, limits)
            if isinstance(planned, Lost):
                return None
            if not isinstance(planned, Nothing):
                behind = available.advance(checkpoint.position, planned)
                self.has_more = not isinstance(available.plan(behind, limits), Nothing)
                following = replace(work, range=planned, generation=checkpoint.generation)
                return replace(self.operation, work=following)
            self.has_more = False
        return None

    def _waits(self, until_s: float) -> bool:
        """Wait until the next look; False where that would be too late."""
        now_s = self.clock.monotonic_s()
        pause_s = max(_PAUSE_S, self.looked_s + self.stay.every_ms / 1000 - now_s)
        if not self.has_more:
            if now_s + pause_s >= until_s:
                return False
            self.clock.sleep(pause_s)
        self.looked_s = self.clock.monotonic_s()
        return True


def _together(before: OperationResult, later: OperationResult) -> OperationResult:
    """Both as one: counts are added, and the instant is the newest."""
    sums = {name: getattr(before, name) + getattr(later, name) for name in _SUMS}
    return replace(
        later,
        **sums,
        source_files=max(before.source_files, later.source_files),
        skipped=(*before.skipped, *later.skipped),
        rolled_back=(*before.rolled_back, *later.rolled_back),
        notes=(*before.notes, *later.notes),
        columns_added=(*before.columns_added, *later.columns_added),
        columns_widened=(*before.columns_widened, *later.columns_widened),
    )
