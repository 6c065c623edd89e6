"""Running a plan that moves rows to its commit: what every such service does around its own work.

1. A service transaction takes the planned instant on; its module says what a death leaves.
2. `check` looks whether something is in the way already.
3. `move` has the engine write files, and returns what became of them.
4. The commit carries the metrics of the run, and `check` is asked again under the lock.
5. Any failure undoes the attempt; `gives_up` says at which failures the plan is given up, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.services.audit import FileDone, ServiceDone
from tideline.hudi.services.config import ServiceConfig
from tideline.hudi.services.engine import ServiceWork
from tideline.hudi.services.run_metrics import RunMetrics
from tideline.hudi.services.service_transaction import ServiceTransaction
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.table.schema_history_reader import schema_history
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import WriteStat
from tideline.hudi.timeline.instant import Instant
from tideline.hudi.write.config import WriteConfig
from tideline.resource_usage import ResourceUsage
from tideline.services.benefit import Benefit


@dataclass(frozen=True, slots=True)
class MovedRows:
    """What an engine did: one stat per file written, the files it `used`, and the bytes it read.

    `benefit` is what readers save by that. `replaced` are the ids of the file groups that the new
    files stand for, by partition.
    """

    stats: Sequence[WriteStat]
    used: tuple[FileDone, ...]
    bytes_read: int
    benefit: Benefit
    replaced: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One service's part in a run, `service` being its name.

    An attempt that is rolled back goes back to its plan, unless the plan goes with it.

    `describe` says in words what became of files read and written. `check` raises ConflictError
    when something is in the way.
    """

    service: str
    permission: Permission
    operation_type: str
    move: Callable[[ServiceWork], MovedRows]
    describe: Callable[[Sequence[FileDone], Sequence[FileDone]], str]
    check: Callable[[ActiveTimeline], None] | None = None
    keeps_plan: bool = True
    gives_up: Callable[[BaseException], bool] = lambda _: False


def execute_planned_run(
    table: HoodieTable,
    instant: Instant,
    run: PlannedRun,
    *,
    config: ServiceConfig,
    write_config: WriteConfig,
) -> ServiceDone:
    """Run the plan of `instant` to its commit. Raises as ServiceTransaction and `run` do."""
    transaction = ServiceTransaction.begin(
        table, instant, config, operation=run.permission, keeps_plan=run.keeps_plan
    )
    try:
        if run.check is not None:
            run.check(transaction.timeline)
        # Files are read by the schema in force at their instant, which may be older than today's.
        before = transaction.timeline.before(instant.time)
        schema_json = table.schemas.newest_json(before) or ""
        history = schema_history(table, before)
        moved = run.move(
            ServiceWork(
                instant.time, schema_json, transaction.timeline, write_config, config.seconds_max
            )
        )
        metrics = RunMetrics(
            run.service,
            bytes_read=moved.bytes_read,
            bytes_written=sum(stat.file_size_in_bytes for stat in moved.stats),
            rows_written=sum(stat.num_writes for stat in moved.stats),
            seconds=table.clock.monotonic_s() - transaction.started_s,
            spent=ResourceUsage.so_far().since(transaction.spent_before),
        )
        transaction.commit(
            moved.stats,
            operation_type=run.operation_type,
            schema_json=schema_json,
            history=history,
            extra_metadata=metrics.to_extra_metadata(),
            replaced=moved.replaced,
            check=run.check,
        )
    except BaseException as error:
        transaction.fail(error, gives_up_plan=run.gives_up(error))
    written = FileDone.written(moved.stats)
    words = run.describe(moved.used, written)
    files = (*moved.used, *written)
    return ServiceDone(run.service, instant.time, files, metrics, words, moved.benefit)
