"""From which instant on the past is kept, and where a clean has to look: pure functions.

1. Need: enough commits completed since the last clean, no clean and no restore pending.
2. The earliest commit to retain, by the policy. A pending write or service freezes it: what such an
   instant reads began before it. A pinned reader's instant holds it back as well, so that cleaning
   (and archiving, which follows it) keeps everything that reader may still open.
3. It moves by at most `commits_to_clean_max` commits a clean, and never backwards.
4. Incremental: only partitions that commits between the last clean's earliest retained commit and
   this one wrote to. A savepoint given up since then makes everything worth a look again.

Source: Hudi's CleanPlanActionExecutor, CleanerUtils and CleanPlanner.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from tideline.hudi.services.cleaning.config import CleaningConfig, CleaningPolicy
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.hudi.timeline.known_zone import AGE_UNKNOWN, KNOWN_UTC, KnownZone
from tideline.services.explanation import Due, NotDue
from tideline.wording import counted

_HOUR_MS = 3_600_000
_CONSIDERED = (*COMMIT_ACTIONS, Action.CLUSTERING, Action.COMPACTION)


@dataclass(frozen=True, slots=True)
class Retention:
    """What a clean made now has to keep, and where it has to look.

    `earliest` is the earliest commit to retain, None when only file versions count. `written` are
    the commits whose partitions may hold something to delete; None means all partitions.
    """

    earliest: Instant | None
    last_completed: InstantTime | None
    completed: int
    written: tuple[Instant, ...] | None
    pinned: tuple[InstantTime, ...] = ()

    @property
    def since(self) -> InstantTime | None:
        """The time of the oldest of `written`."""
        return self.written[0].time if self.written else None


def find_due(facts: DueFacts, config: CleaningConfig) -> Due | NotDue:
    """Whether a clean may find something to delete."""
    timeline, last, known = facts.timeline, facts.last_clean, facts.zone
    now_ms = facts.now_ms
    retention = plan_retention(timeline, last, config, now_ms, known)
    if isinstance(retention, NotDue):
        return retention
    if retention.written == () and not is_empty_clean_due(timeline, last, config, now_ms, known):
        return NotDue("what is older than the commits to keep has been cleaned")
    old = f"what was replaced before {retention.earliest.time}" if retention.earliest else ""
    since = f" since clean {last.time}" if last else ""
    written = retention.written
    commits = "all commits" if written is None else counted(len(written), "commit")
    return Due(f"no reader needs {old or 'old file versions'}; {commits} to look at{since}")


def plan_retention(
    timeline: ActiveTimeline,
    last: LastClean | None,
    config: CleaningConfig,
    now_ms: int,
    known: KnownZone = KNOWN_UTC,
) -> Retention | NotDue:
    """What to keep and where to look, or why there is nothing to do.

    `known` is the zone of the instants; retention by hours waits until it is.
    """
    if config.policy is CleaningPolicy.KEEP_LATEST_BY_HOURS and not known.knows_age:
        return NotDue(AGE_UNKNOWN)
    blocked = _blocked(timeline, config)
    if blocked is not None:
        return blocked
    completed = timeline.of(*COMMIT_ACTIONS).completed().instants
    since = _commits_since(completed, last)
    if since < config.trigger_commits:
        commits = counted(config.trigger_commits, "commit")
        return NotDue(f"{since} of {commits} completed since the last clean")
    newest = completed[-1].time if completed else None
    pinned = tuple(time for time in config.pinned_instants if newest is None or time <= newest)
    earliest = earliest_retained(timeline, config, now_ms, known)
    if config.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS:
        return Retention(earliest, newest, len(completed), None, pinned)
    if earliest is None:
        return NotDue(_why_all_is_kept(timeline, config))
    earliest = _advance(completed, earliest, last, config)
    return Retention(
        earliest, newest, len(completed), _written(timeline, completed, earliest, last, config)
    )


def is_empty_clean_due(
    timeline: ActiveTimeline,
    last: LastClean | None,
    config: CleaningConfig,
    now_ms: int,
    known: KnownZone = KNOWN_UTC,
) -> bool:
    """Whether a clean without work is to be written down, so that others see how far it looked."""
    if config.empty_clean_interval_hours is None or not known.knows_age:
        return False
    first = timeline.of(*COMMIT_ACTIONS).completed().first()
    since = last.time if last else first.time if first else None
    interval_ms = config.empty_clean_interval_hours * _HOUR_MS
    return since is not None and now_ms - known.zone.epoch_ms(since) >= interval_ms


def earliest_retained(
    timeline: ActiveTimeline, config: CleaningConfig, now_ms: int, known: KnownZone = KNOWN_UTC
) -> Instant | None:
    """The earliest commit whose snapshot is kept; None while everything is (or versions count).

    Archiving must not go past it. `now_ms` and the zone matter to retention by hours only.
    """
    completed = timeline.of(*COMMIT_ACTIONS).completed().instants
    earliest: Instant | None = None
    if config.policy is CleaningPolicy.KEEP_LATEST_COMMITS:
        if len(completed) > config.commits_retained:
            earliest = completed[-config.commits_retained]
            pending = timeline.of(*_CONSIDERED).pending().first()
            if pending is not None and earliest.time > pending.time:
                earliest = _last_before(completed, pending.time)
    elif config.policy is CleaningPolicy.KEEP_LATEST_BY_HOURS:
        oldest_ms = max(0, now_ms - config.hours_retained * _HOUR_MS)
        kept = (instant for instant in completed if known.zone.epoch_ms(instant.time) >= oldest_ms)
        earliest = next(kept, None)
    elif not config.pinned_instants:
        return None
    return _held_back(completed, earliest, config)


def _held_back(
    completed: tuple[Instant, ...], earliest: Instant | None, config: CleaningConfig
) -> Instant | None:
    """The earliest commit, or an older one that a pinned reader still looks at."""
    if not config.pinned_instants or not completed:
        return earliest
    oldest = config.pinned_instants[0]
    by_versions = config.policy is CleaningPolicy.KEEP_LATEST_FILE_VERSIONS
    if (earliest is None and not by_versions) or (earliest is not None and earliest.time <= oldest):
        return earliest
    if by_versions and oldest > completed[-1].time:
        return None
    pinned = next((item for item in completed if item.time == oldest), None)
    return pinned or _last_before(completed, oldest)


def _advance(
    completed: tuple[Instant, ...],
    earliest: Instant,
    last: LastClean | None,
    config: CleaningConfig,
) -> Instant:
    """The earliest commit to retain, not before the last clean's nor too far after it."""
    times = [instant.time for instant in completed]
    start = 0
    if last is not None and last.earliest_retained is not None:
        start = bisect_left(times, last.earliest_retained)
        if start < len(times) and earliest.time < times[start] and not config.pinned_instants:
            return completed[start]
    if config.commits_to_clean_max is None:
        return earliest
    furthest = min(start + config.commits_to_clean_max, len(completed) - 1)
    return min(earliest, completed[furthest])


def _written(
    timeline: ActiveTimeline,
    completed: tuple[Instant, ...],
    earliest: Instant,
    last: LastClean | None,
    config: CleaningConfig,
) -> tuple[Instant, ...] | None:
    """The commits since the last clean's earliest retained one; None: look everywhere."""
    if not config.is_incremental or last is None or last.earliest_retained is None:
        return None
    if timeline.start is None or last.earliest_retained < timeline.start:
        return None
    if last.savepointed - timeline.savepointed_times():
        return None
    return tuple(item for item in completed if last.earliest_retained <= item.time < earliest.time)


def _commits_since(completed: tuple[Instant, ...], last: LastClean | None) -> int:
    if last is None or last.last_completed is None:
        return len(completed)
    return sum(1 for instant in completed if instant.time > last.last_completed)


def _blocked(timeline: ActiveTimeline, config: CleaningConfig) -> NotDue | None:
    restore = timeline.of(Action.RESTORE).pending().first()
    if restore is not None:
        return NotDue(f"the restore {restore.time} is unfinished")
    clean = timeline.of(Action.CLEAN).pending().first()
    if clean is not None and not config.allows_several:
        return NotDue(f"the clean {clean.time} is still to be executed")
    return None


def _why_all_is_kept(timeline: ActiveTimeline, config: CleaningConfig) -> str:
    completed = len(timeline.of(*COMMIT_ACTIONS).completed())
    if config.policy is CleaningPolicy.KEEP_LATEST_BY_HOURS:
        return f"no commit completed in the last {counted(config.hours_retained, 'hour')}"
    if completed <= config.commits_retained:
        kept = config.commits_retained
        return f"{counted(completed, 'commit')} completed, the newest {kept} are kept"
    pending = timeline.of(*_CONSIDERED).pending().first()
    if pending is not None:
        return f"the pending {pending.action} {pending.time} needs what was there when it began"
    return f"the pinned instant {config.pinned_instants[0]} is older than the timeline"


def _last_before(completed: tuple[Instant, ...], time: InstantTime) -> Instant | None:
    return next((item for item in reversed(completed) if item.time < time), None)
