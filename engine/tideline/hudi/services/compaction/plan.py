"""Compaction planning: is one due, where to look, and which file slices to merge. Pure.

1. Nothing may be pending that began before: its log files would be named by the plan but not yet be
   committed, and their rows would be lost with the slice (table version 6 names log files after
   the base file; later ones would not need this).
2. The trigger counts delta commits, or seconds, since the last completed compaction.
3. Only partitions written to since then are looked at, and those the last plan left out.
4. File groups under a pending compaction, log compaction or clustering are left alone.
5. Of every other group the newest slice with log files is an operation; the strategy picks.

Source: Hudi's ScheduleCompactionActionExecutor, CompactionUtils, BaseHoodieCompactionPlanGenerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.bounded.parsing import parser
from tideline.hudi.services.compaction.config import CompactionConfig, CompactionTrigger
from tideline.hudi.services.compaction.operation import CompactionOperation
from tideline.hudi.services.compaction.strategy import keep_partitions, take_operations
from tideline.hudi.services.due_facts import DueFacts, completion_times
from tideline.hudi.services.slice_benefit import benefit_of_rewrite
from tideline.hudi.table.file_group import FileGroupId
from tideline.hudi.table.file_system_view import FileSystemView
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import AGE_UNKNOWN, KNOWN_UTC, KnownZone
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone
from tideline.services.explanation import Explanation, NotDue
from tideline.wording import counted

PLAN_VERSION = 2
CLOCK_MARGIN_MS = 10 * 60 * 1000
"""How far the store's clock, which stamps completed instants, may be from the writers'."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The slices to merge, and the partitions the next plan has to look at in addition to new ones.

    `reason` says why it was made; it is not part of the stored plan.
    """

    operations: tuple[CompactionOperation, ...]
    missing_partitions: tuple[str, ...] = ()
    reason: str = ""

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(sorted({item.group.partition for item in self.operations}))

    def explain(self) -> Explanation:
        """What it touches, saves and costs; each base file is expected to keep its size."""
        slices = [item.slice for item in self.operations]
        read_bytes = sum(file_slice.size_bytes for file_slice in slices)
        written = sum(item.bytes_after for item in self.operations)
        logs = sum(len(file_slice.log_files) for file_slice in slices)
        return Explanation(
            self.reason,
            tuple(path for item in self.operations for path in item.paths),
            bytes_read=read_bytes,
            bytes_written=written,
            benefit=benefit_of_rewrite(slices, files_after=len(slices), bytes_after=written),
            details={
                "file groups": str(len(slices)),
                "log files": str(logs),
                "partitions": str(len(self.partitions)),
                "partitions left for later": str(len(self.missing_partitions)),
            },
        )

    def to_avro(self) -> dict[str, Any]:
        """The HoodieCompactionPlan record."""
        return {
            "operations": [item.to_avro() for item in self.operations],
            "extraMetadata": {},
            "version": PLAN_VERSION,
            "strategy": None,
            "preserveHoodieMetadata": False,
            "missingSchedulePartitions": list(self.missing_partitions) or None,
        }

    @classmethod
    @parser("a compaction plan lacks a field, or one is wrong")
    def from_avro(cls, record: Mapping[str, Any], *, path: str) -> CompactionPlan:
        """Read a plan of ours or of Hudi's. Raises CorruptTableError naming `path`."""
        return cls(
            tuple(
                CompactionOperation.from_avro(item, path=path)
                for item in record.get("operations") or ()
            ),
            tuple(record.get("missingSchedulePartitions") or ()),
        )


@dataclass(frozen=True, slots=True)
class CompactionDue:
    """The trigger said yes. `since` is the last completed compaction, None before the first."""

    reason: str
    since: Instant | None


def compaction_due(
    facts: DueFacts, config: CompactionConfig, now: InstantTime
) -> CompactionDue | NotDue:
    """Whether a compaction at `now` is due by its trigger, by the facts of the table."""
    if not facts.is_merge_on_read:
        return NotDue("only merge-on-read tables have log files to merge")
    return find_due(
        facts.timeline,
        config,
        now,
        completed_at=completion_times(facts.timeline, facts.zone.zone),
        clusterings=facts.pending_clusterings,
        is_single_writer=facts.is_single_writer,
        known=facts.zone,
    )


def find_due(
    timeline: ActiveTimeline,
    config: CompactionConfig,
    now: InstantTime,
    *,
    completed_at: Mapping[InstantTime, InstantTime],
    clusterings: frozenset[InstantTime] = frozenset(),
    is_single_writer: bool = False,
    known: KnownZone = KNOWN_UTC,
) -> CompactionDue | NotDue:
    """Whether a compaction at `now` is due by its trigger.

    `completed_at` gives completion times (the store's time stamps in layout 1), `clusterings` the
    pending instants that are clustering. Those are in the way only of a single writer.
    `known` is the zone of the instants; a trigger by time waits until it is.
    """
    pending = timeline.pending().of(*COMMIT_ACTIONS, Action.CLUSTERING).before(now)
    blocking = [i for i in pending if is_single_writer or i.time not in clusterings]
    if blocking:
        return NotDue(f"{blocking[0].time} ({blocking[0].action}) is still being written")
    last = _last_compaction(timeline)
    after_request = config.trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST
    if after_request:
        requested = timeline.pending().of(Action.COMPACTION).last()
        reference = requested or last
        after = timeline.of(Action.DELTACOMMIT)
        deltas = list(after.after(reference.time) if reference else after)
        counted_from = reference.time if reference else None
    else:
        deltas = _delta_commits_since(timeline, last, completed_at)
        counted_from = last.time if last else None
    if not deltas:
        return NotDue(f"no delta commits {_since(counted_from)}")
    seconds = None
    if known.knows_age:
        began_ms = known.zone.epoch_ms(counted_from or deltas[0].time)
        seconds = (known.zone.epoch_ms(now) - began_ms) // 1000
    return _check(config, len(deltas), seconds, counted_from, last)


def instants_to_look_at(
    timeline: ActiveTimeline,
    since: Instant,
    completed_at: Mapping[InstantTime, InstantTime],
    zone: TimelineZone = UTC_ZONE,
) -> tuple[Instant, ...]:
    """The completed writes whose partitions the next plan looks at.

    A write counts that began after the last compaction was planned, or completed after it by the
    store's clock, which may be off by CLOCK_MARGIN_MS.
    """
    return tuple(
        instant
        for instant in timeline.of(Action.DELTACOMMIT, Action.REPLACECOMMIT).completed()
        if instant.time > since.time or _completed_after(instant, since, completed_at, zone)
    )


def plan_compaction(
    view: FileSystemView,
    config: CompactionConfig,
    now: InstantTime,
    *,
    reason: str,
    pending_log_compaction: Mapping[FileGroupId, InstantTime] | None = None,
) -> CompactionPlan | NotDue:
    """Pick what to merge from a view of the partitions to look at. Raises as keep_partitions.

    The log that a pending log compaction makes may end up on top of this compaction, with values
    that are older than what it merged; so groups of one are left alone.
    """
    wanted = keep_partitions(view.partitions, config, now)
    missing = set(view.partitions) - set(wanted)
    busy = {**view.pending_compaction, **view.pending_clustering}
    busy |= dict(pending_log_compaction or {})
    candidates = []
    for partition in wanted:
        for file_slice in view.latest_slices(partition):
            if not file_slice.log_files:
                continue
            if file_slice.group in busy:
                missing.add(partition)
                continue
            candidates.append(CompactionOperation.of(file_slice, config.file_size_bytes_max))
    operations = take_operations(candidates, config, now)
    taken = {item.group for item in operations}
    missing |= {item.group.partition for item in candidates if item.group not in taken}
    if not candidates:
        return NotDue("no file group has log files to merge")
    if not operations:
        return NotDue("the strategy takes none of the file groups that have log files")
    return CompactionPlan(operations, tuple(sorted(missing)), reason)


def _check(
    config: CompactionConfig,
    commits: int,
    seconds: int | None,
    counted_from: InstantTime | None,
    last: Instant | None,
) -> CompactionDue | NotDue:
    """Ask the trigger; `seconds` is None where unknown, and then never enough."""
    enough = commits >= config.delta_commits_max
    late = seconds is not None and seconds >= config.delta_seconds_max
    by_number = f"{commits} of {config.delta_commits_max} delta commits"
    by_time = f"{seconds} of {counted(config.delta_seconds_max, 'second')}"
    if seconds is None:
        by_time = f"an unknown time ({AGE_UNKNOWN})"
    is_due, facts = {
        CompactionTrigger.NUM_COMMITS: (enough, by_number),
        CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST: (enough, by_number),
        CompactionTrigger.TIME_ELAPSED: (late, by_time),
        CompactionTrigger.NUM_AND_TIME: (enough and late, f"{by_number} and {by_time}"),
        CompactionTrigger.NUM_OR_TIME: (enough or late, f"{by_number} or {by_time}"),
    }[config.trigger]
    reason = f"{facts} {_since(counted_from)}"
    return CompactionDue(reason, last) if is_due else NotDue(reason)


def _since(time: InstantTime | None) -> str:
    return f"since compaction {time}" if time else "since the table began"


def _last_compaction(timeline: ActiveTimeline) -> Instant | None:
    """A completed `commit` of a merge-on-read table is a compaction."""
    return timeline.of(Action.COMMIT).completed().last()


def _delta_commits_since(
    timeline: ActiveTimeline,
    last: Instant | None,
    completed_at: Mapping[InstantTime, InstantTime],
) -> list[Instant]:
    completed = timeline.of(Action.DELTACOMMIT).completed()
    if last is None:
        return list(completed)

    def counts(instant: Instant) -> bool:
        done = completed_at.get(instant.time, instant.time)
        return instant.time != last.time and (instant.time > last.time or done > last.time)

    return [instant for instant in completed if counts(instant)]


def _completed_after(
    instant: Instant,
    since: Instant,
    completed_at: Mapping[InstantTime, InstantTime],
    zone: TimelineZone,
) -> bool:
    done = completed_at.get(instant.time)
    margin_ms = CLOCK_MARGIN_MS
    return done is not None and zone.epoch_ms(done) + margin_ms >= zone.earliest_ms(since.time)
