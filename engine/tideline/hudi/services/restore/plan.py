"""Which instants a restore undoes, in which order: a pure function of the timeline.

1. Pending clusterings newer than the savepoint, newest first.
2. Every other write that completed after the savepointed commit did, latest completion first. What
   is pending has not completed yet, so a write that began before the savepoint is undone as well.
   Where a compaction is involved in a merge-on-read table, the requested times are compared: the
   file slices of a compaction begin there.
3. Spared: what completed before the savepoint was made, although after its commit, so that the
   savepoint names its base files. By the rule above alone it would be undone, and rows be lost
   where a clean removed what a clustering replaced.

Version 6 tables do not store completion times; see `completion`.
Source: Hudi's RestorePlanActionExecutor, BaseRestoreActionExecutor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.bounded.parsing import parser
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone

PLAN_VERSION = 2
_AT_SLICE_BEGIN = (Action.COMPACTION, Action.COMMIT)
_NEVER = float("inf")


@dataclass(frozen=True, slots=True, order=True)
class InstantName:
    """An instant by time and action, in any state."""

    time: InstantTime
    action: Action

    def to_avro(self) -> dict[str, str]:
        """The HoodieInstantInfo record."""
        return {"commitTime": str(self.time), "action": self.action.value}


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The instants to undo, in this order, to be at the savepoint again."""

    savepoint: InstantTime
    instants: tuple[InstantName, ...]

    @property
    def times(self) -> frozenset[InstantTime]:
        return frozenset(name.time for name in self.instants)

    def sparing(self, seen: Collection[InstantTime]) -> RestorePlan:
        """The plan without the instants that the savepoint saw."""
        return replace(self, instants=tuple(i for i in self.instants if i.time not in seen))

    def to_avro(self) -> dict[str, Any]:
        """The HoodieRestorePlan record."""
        return {
            "instantsToRollback": [name.to_avro() for name in self.instants],
            "version": PLAN_VERSION,
            "savepointToRestoreTimestamp": str(self.savepoint),
        }

    @classmethod
    @parser("a restore plan lacks a field, or one is wrong")
    def from_avro(cls, record: Mapping[str, Any]) -> RestorePlan:
        """Read a plan of ours or of Hudi's. Raises ValueError when it names no savepoint."""
        savepoint = record.get("savepointToRestoreTimestamp")
        if not savepoint:
            raise ValueError("the plan names no savepoint")
        return cls(
            InstantTime.parse(savepoint),
            tuple(
                InstantName(InstantTime.parse(item["commitTime"]), Action(item["action"]))
                for item in record.get("instantsToRollback") or ()
            ),
        )


def plan_restore(
    timeline: ActiveTimeline,
    savepointed: Instant,
    *,
    table_type: TableType,
    completed_ms: Mapping[InstantTime, int],
    clusterings: Collection[InstantTime] = (),
    zone: TimelineZone = UTC_ZONE,
) -> RestorePlan:
    """What to undo to be back at `savepointed`, a completed commit.

    `completed_ms` is when each completed write completed; `clusterings` are the pending
    replacecommits that are clustering plans; `zone` is that of the instants.
    """
    writes = timeline.writes().instants
    first = [
        instant
        for instant in reversed(writes)
        if instant.is_pending and instant.time in clusterings and instant.time > savepointed.time
    ]
    reached: float = completed_ms.get(savepointed.time, zone.epoch_ms(savepointed.time))

    def completion(instant: Instant) -> float:
        if instant.is_pending:
            return _NEVER
        return completed_ms.get(instant.time, zone.epoch_ms(instant.time))

    def is_later(instant: Instant) -> bool:
        by_time = instant.time > savepointed.time
        if table_type is TableType.MERGE_ON_READ and (
            instant.action in _AT_SLICE_BEGIN or savepointed.action in _AT_SLICE_BEGIN
        ):
            return by_time
        when = completion(instant)
        return when > reached or (when == reached and by_time)

    rest = [instant for instant in writes if instant not in first and is_later(instant)]
    rest.sort(key=lambda instant: (completion(instant), instant.time), reverse=True)
    return RestorePlan(
        savepointed.time, tuple(InstantName(item.time, item.action) for item in (*first, *rest))
    )
