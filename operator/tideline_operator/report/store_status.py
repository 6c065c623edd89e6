"""The status of a LakeStore, from the looks at its buckets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.storage.probe.report import ProbeOutcome, StoreReport
from tideline.wording import counted
from tideline_operator.decide.observed import Problem
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import ConditionStatus
from tideline_operator.resources.store_status import (
    BUCKETS_MAX,
    BucketStatus,
    LakeStoreStatus,
    StoreCheck,
    StoreCondition,
    StoreConditionType,
)

_MESSAGE_LENGTH_MAX = 1_000


def bucket_checked(report: StoreReport, generation: int, now_ms: int) -> BucketStatus:
    """A bucket after its checks."""
    checks = tuple(
        StoreCheck(
            name=str(result.promise), outcome=str(result.outcome), message=_short(result.message)
        )
        for result in report.results
    )
    return BucketStatus(
        outcome=str(report.outcome),
        checks=checks,
        checked_at=Timestamp(now_ms),
        checked_generation=generation,
    )


def bucket_looked_at(before: BucketStatus, problem: Problem | None) -> BucketStatus:
    """A bucket after a look; the results of its checks stay."""
    if problem is None:
        return replace(before, problem="", message="")
    return replace(before, problem=problem.reason, message=_short(problem.message))


def store_status(
    before: LakeStoreStatus,
    buckets: Mapping[str, BucketStatus],
    generation: int,
    now_ms: int,
) -> LakeStoreStatus:
    """The status with these buckets."""
    kept = dict(sorted(buckets.items())[:BUCKETS_MAX])
    status, reason, message = _checked(kept)
    known = next((condition for condition in before.conditions if condition.status is status), None)
    since = Timestamp(now_ms) if known is None else known.last_transition_time
    ready = StoreCondition(
        type=StoreConditionType.READY,
        status=status,
        reason=reason,
        message=_short(message),
        last_transition_time=since,
    )
    return LakeStoreStatus(observed_generation=generation, conditions=(ready,), buckets=kept)


def _checked(buckets: Mapping[str, BucketStatus]) -> tuple[ConditionStatus, str, str]:
    if not buckets:
        return ConditionStatus.UNKNOWN, "NotUsed", "no table uses a bucket of it"
    for name, bucket in buckets.items():
        if bucket.problem:
            return ConditionStatus.FALSE, bucket.problem, f"bucket {name}: {bucket.message}"
    passed = str(ProbeOutcome.PASSED)
    for name, bucket in buckets.items():
        wrong = [check for check in bucket.checks if check.outcome != passed]
        if wrong:
            number = counted(len(wrong), "check")
            message = f"bucket {name} did not pass {number}: it {wrong[0].message}"
            return ConditionStatus.FALSE, "PromisesBroken", message
    return ConditionStatus.TRUE, "Reachable", ""


def _short(text: str) -> str:
    return text[:_MESSAGE_LENGTH_MAX]
