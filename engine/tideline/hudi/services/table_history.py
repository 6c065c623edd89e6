"""What planners need of a table's past: earlier plans, earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, Self, TypeVar

from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.hudi.services.run_metrics import CLEAN_CORE_SECONDS, RunMetrics
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.commit_metadata import CommitMetadata
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

CLUSTER = "CLUSTER"
LOG_COMPACT = "LOG_COMPACT"
_RUNS_LOOKED_AT = 5
_COMMITS_LOOKED_AT = 20


def requested_plan(table: HoodieTable, instant: Instant) -> tuple[Mapping[str, Any], str]:
    """The plan record of a pending instant and its path.

    Raises CorruptTableError when it is truncated or empty, ObjectNotFoundError when it is gone.
    """
    requested = instant.in_state(State.REQUESTED)
    path = table.timelines.path(requested)
    record = table.timelines.read_record(requested)
    if not record:
        raise CorruptTableError("the plan is empty", table=table.uri, instant=instant, path=path)
    return record, path


class _Plan(Protocol):
    @classmethod
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> Self: ...


Plan = TypeVar("Plan", bound=_Plan)


def stored_plan(table: HoodieTable, instant: Instant, kind: type[Plan]) -> Plan:
    """The plan of a pending instant.

    Raises CorruptTableError when it is truncated, ObjectNotFoundError when it is gone.
    """
    record, path = requested_plan(table, instant)
    with table.timelines.naming(instant):
        return kind.from_avro(record, path=path)


def partitions_left_over(
    table: HoodieTable, completed: Instant, action: Action
) -> tuple[str, ...] | None:
    """Partitions that the plan of a completed service did not look at; None when it is gone."""
    try:
        record, _ = requested_plan(table, Instant(completed.time, action, State.REQUESTED))
    except (CorruptTableError, ObjectNotFoundError):
        return None
    is_clustering = action in (Action.REPLACECOMMIT, Action.CLUSTERING)
    plan = record.get("clusteringPlan") if is_clustering else record
    if plan is None:
        return None
    return tuple(plan.get("missingSchedulePartitions") or ())


def written_partitions(table: HoodieTable, instants: Iterable[Instant]) -> frozenset[str]:
    """The partitions that completed commits wrote to or replaced file groups of."""
    found: set[str] = set()
    for instant in instants:
        metadata = table.commits.read(instant)
        found |= set(metadata.partition_to_write_stats)
        found |= set(metadata.partition_to_replace_file_ids or ())
    return frozenset(found)


def clusterings(table: HoodieTable, timeline: ActiveTimeline) -> frozenset[InstantTime]:
    """The replacecommits, pending or completed, that are clustering."""
    return frozenset(
        instant.time
        for instant in timeline.of(Action.REPLACECOMMIT, Action.CLUSTERING)
        if _is_clustering(table, instant)
    )


def log_compactions(table: HoodieTable, timeline: ActiveTimeline) -> frozenset[InstantTime]:
    """The completed delta commits since the last compaction that are log compactions."""
    last = timeline.of(Action.COMMIT).completed().last()
    commits = timeline.of(Action.DELTACOMMIT).completed()
    return frozenset(
        instant.time
        for instant in (commits.after(last.time) if last else commits)
        if table.commits.read(instant).operation_type == LOG_COMPACT
    )


def past_runs(
    table: HoodieTable,
    timeline: ActiveTimeline,
    completed_as: Action,
    service: str,
) -> tuple[RunMetrics, ...]:
    """Metrics of the newest runs of a service on this table, newest first.

    `completed_as` is the action of its commits, `service` is its name.
    """
    commits = timeline.of(completed_as).completed()
    newest = islice(reversed(commits.instants), _COMMITS_LOOKED_AT)
    extras = (_metadata(table, instant).extra_metadata for instant in newest)
    metrics = (RunMetrics.from_extra_metadata(extra) for extra in extras)
    return tuple(
        islice((run for run in metrics if run and run.service == service), _RUNS_LOOKED_AT)
    )


@dataclass(frozen=True, slots=True)
class PastClean:
    """A completed clean of any process. `core_seconds` is 0 where it does not say them."""

    files: int
    seconds: float
    core_seconds: float


def past_cleans(table: HoodieTable, timeline: ActiveTimeline) -> tuple[PastClean, ...]:
    """What the newest cleans deleted and took, by any process, newest first."""
    found = []
    for clean in islice(reversed(timeline.of(Action.CLEAN).completed().instants), _RUNS_LOOKED_AT):
        with suppress(CorruptTableError, ObjectNotFoundError):
            record = table.timelines.read_record(clean)
            if "timeTakenInMillis" in record:
                seconds = record["timeTakenInMillis"] / 1000
                cores = _core_seconds(record.get("extraMetadata") or {})
                found.append(PastClean(record["totalFilesDeleted"], seconds, cores))
    return tuple(found)


def _core_seconds(extra: Mapping[str, str]) -> float:
    try:
        return float(extra.get(CLEAN_CORE_SECONDS, 0))
    except ValueError:
        return 0.0


def _metadata(table: HoodieTable, instant: Instant) -> CommitMetadata:
    try:
        return table.commits.read(instant)
    except ObjectNotFoundError:
        return CommitMetadata()


def _is_clustering(table: HoodieTable, instant: Instant) -> bool:
    if instant.is_completed:
        return _metadata(table, instant).operation_type == CLUSTER
    try:
        record, _ = requested_plan(table, instant)
    except (ObjectNotFoundError, CorruptTableError):
        return False
    return record.get("clusteringPlan") is not None
