"""Which instants archival takes out of the active timeline: a pure function of it.

1. Completed commits of all kinds: when there are more than the maximum, the oldest go, as far as
   nothing below holds them, but never the newest. The limits rise together when cleaning has yet
   to look at more commits than the minimum.
2. Completed cleans, rollbacks and builds of indexes. In layout 2 all that are older than a commit
   that goes: Hudi's readers ask for the completion time of an archived commit only where it is
   older than every active instant, and put its logs on top of the newest base file otherwise. In
   layout 1 cleans and rollbacks, each by the same limits.
3. What holds commits back, each named in the plan: the oldest savepoint, with
   `hoodie.archive.beyond.savepoint` as well (Hudi's readers take what is archived behind the first
   active write for uncommitted); the newest completed commit before the oldest write that is
   pending, or undone while its writer may still be running (files it makes yet would count as
   archived ones); on MERGE_ON_READ the delta commits that the compaction trigger counts; the newest
   write, where it names the version of a schema history (Hudi looks for that among active commits
   alone); the first replacecommit that cleaning may not have worked off; a replacecommit whose
   replaced files are still there (archived, it would bring them back to life); what is not in the
   latest compaction of the metadata table; in layout 2 whatever is pending, and a delta commit
   after a restore, which stays, as long as logs of the commit are there.

Stricter than Hudi about savepoints, restores, the newest commit, undone writes, replaced files,
builds of indexes, and about cleans and rollbacks that are pending, or newer than the metadata
table's compaction.
Source: Hudi's TimelineArchiverV1, TimelineArchiverV2, ArchivalUtils, CompactionUtils.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.due_facts import DueFacts
from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, WRITE_ACTIONS, Action, Instant
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.services.benefit import Benefit
from tideline.services.explanation import Explanation, NotDue
from tideline.wording import counted

_BESIDE_COMMITS = (Action.CLEAN, Action.ROLLBACK, Action.INDEXING)

OBJECTS_PER_INSTANT = 3
"""Requested, inflight and completed; how many there are shows when they are deleted."""


@dataclass(frozen=True, slots=True)
class ArchivalFacts:
    """What the timeline alone does not show; see `ArchivalHolds`.

    `not_cleaned` are completed replacecommits whose replaced files are still there, `with_logs`
    delta commits after a completed restore whose logs are.
    """

    is_merge_on_read: bool = False
    last_clean: LastClean | None = None
    has_metadata_table: bool = False
    metadata_compaction: InstantTime | None = None
    not_cleaned: frozenset[InstantTime] = frozenset()
    with_logs: frozenset[InstantTime] = frozenset()
    undone: frozenset[InstantTime] = frozenset()
    schema_commit: InstantTime | None = None

    @classmethod
    def of(cls, facts: DueFacts, config: ArchivalConfig) -> ArchivalFacts:
        """What is known before any file is listed. Nothing is read where the timeline is short."""
        if _is_short(facts.timeline, config):
            return cls(facts.is_merge_on_read)
        holds = facts.archival_holds
        return cls(
            facts.is_merge_on_read,
            facts.last_clean,
            holds.has_metadata_table,
            holds.metadata_compaction,
            undone=holds.undone,
            schema_commit=holds.schema_commit,
        )


@dataclass(frozen=True, slots=True)
class Hold:
    """Instants at or after `time` may not be archived, because of `reason`."""

    time: InstantTime
    reason: str


@dataclass(frozen=True, slots=True)
class ArchivalPlan:
    """The completed instants to archive, oldest first; `hold` is what keeps the next commit."""

    instants: tuple[Instant, ...]
    commits_max: int
    hold: Hold | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def explain(self) -> Explanation:
        """What is due and why, for people."""
        counted = ", ".join(f"{count} {action}" for action, count in sorted(self.counts.items()))
        oldest, newest = self.instants[0].time, self.instants[-1].time
        details = {"oldest": str(oldest), "newest": str(newest), **_held(self.hold)}
        objects = OBJECTS_PER_INSTANT * len(self.instants)
        reason = f"more than {self.commits_max} of a kind are in the timeline: {counted} to archive"
        return Explanation(reason, details=details, benefit=Benefit(objects_listed=objects))

    def to_json_object(self) -> dict[str, Any]:
        return {
            "instants": [str(instant) for instant in self.instants],
            "held_at": None if self.hold is None else str(self.hold.time),
            "held_because": None if self.hold is None else self.hold.reason,
        }


def plan_archival(
    timeline: ActiveTimeline, config: ArchivalConfig, facts: ArchivalFacts
) -> ArchivalPlan | NotDue:
    """What to archive now, or why nothing is due."""
    if facts.has_metadata_table and facts.metadata_compaction is None:
        return NotDue("the metadata table has not been compacted yet, so it needs every instant")
    commits, hold = _plan_commits(timeline, config, facts)
    chosen = sorted((*commits, *_beside(commits, timeline, config, facts)))
    if not chosen:
        return NotDue(_why_nothing(timeline, config, facts, hold))
    return ArchivalPlan(tuple(chosen), config.commits_max, hold, _count(chosen))


def find_holds(
    timeline: ActiveTimeline, config: ArchivalConfig, facts: ArchivalFacts
) -> tuple[Hold, ...]:
    """Everything that keeps commits from being archived, oldest first."""
    holds: list[Hold | None] = [
        _savepoint(timeline, config),
        _oldest_unsettled(timeline, facts),
        _replaced(timeline, facts),
        *(Hold(time, "files it replaced are still there") for time in facts.not_cleaned),
        *(Hold(time, "logs of it are there, and a restore before it") for time in facts.with_logs),
        _schema(facts),
        _uncompacted(timeline, facts),
    ]
    if _has_completion_times(timeline):
        holds.append(_oldest_pending(timeline))
    if facts.is_merge_on_read:
        holds.append(_compaction(timeline, config))
    clean = facts.last_clean
    if config.blocks_on_earliest_retained and clean is not None and clean.earliest_retained:
        holds.append(Hold(clean.earliest_retained, "cleaning retains it"))
    found = [hold for hold in holds if hold is not None]
    return tuple(sorted(found, key=lambda hold: hold.time))


def _plan_commits(
    timeline: ActiveTimeline, config: ArchivalConfig, facts: ArchivalFacts
) -> tuple[tuple[Instant, ...], Hold | None]:
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    commits_min, commits_max = _limits(commits, config, facts)
    if len(commits) <= commits_max:
        return (), None
    hold = next(iter(find_holds(timeline, config, facts)), None)
    # At least one is left: readers take nothing newer than the newest active commit for committed.
    free = [instant for instant in commits if hold is None or instant.time < hold.time]
    surplus = len(commits) - commits_min
    return tuple(free[:surplus]), hold if len(free) < surplus else None


def _beside(
    commits: tuple[Instant, ...],
    timeline: ActiveTimeline,
    config: ArchivalConfig,
    facts: ArchivalFacts,
) -> Iterator[Instant]:
    """What is archived beside these commits."""
    if _has_completion_times(timeline):
        if commits:
            yield from timeline.of(*_BESIDE_COMMITS).completed().before(commits[-1].time)
        return
    metadata = facts.metadata_compaction
    for action in (Action.CLEAN, Action.ROLLBACK):
        for instant in _surplus(timeline.of(action).completed().instants, config):
            if metadata is None or instant.time < metadata:
                yield instant


def _has_completion_times(timeline: ActiveTimeline) -> bool:
    return any(instant.completion_time for instant in timeline.completed())


def _limits(
    commits: ActiveTimeline, config: ArchivalConfig, facts: ArchivalFacts
) -> tuple[int, int]:
    """Minimum and maximum, both raised when cleaning still counts on more commits."""
    clean = facts.last_clean
    if clean is None or clean.earliest_retained is None:
        return config.commits_min, config.commits_max
    needed = len(commits.after(clean.earliest_retained)) + 2
    raised_by = max(0, needed - config.commits_min)
    return config.commits_min + raised_by, config.commits_max + raised_by


def _is_short(timeline: ActiveTimeline, config: ArchivalConfig) -> bool:
    kinds = [COMMIT_ACTIONS]
    if not _has_completion_times(timeline):
        kinds += [frozenset({Action.CLEAN}), frozenset({Action.ROLLBACK})]
    return not any(_surplus(timeline.of(*kind).completed().instants, config) for kind in kinds)


def _surplus(instants: tuple[Instant, ...], config: ArchivalConfig) -> tuple[Instant, ...]:
    if len(instants) <= config.commits_max:
        return ()
    return instants[: len(instants) - config.commits_min]


def _savepoint(timeline: ActiveTimeline, config: ArchivalConfig) -> Hold | None:
    first = min(timeline.savepointed_times(), default=None)
    if first is None:
        return None
    reason = "it is savepointed"
    if config.beyond_savepoint:
        reason += ", and Hudi's queries lose rows of later commits that are archived"
    return Hold(first, reason)


def _oldest_unsettled(timeline: ActiveTimeline, facts: ArchivalFacts) -> Hold | None:
    """The completed commit before the oldest unsettled write stays: nothing older is unsettled."""
    pending = timeline.of(*WRITE_ACTIONS).pending()
    reasons = {
        time: f"{time} is undone, but its writer may still be running" for time in facts.undone
    }
    reasons |= {
        instant.time: f"{instant.time} ({instant.action}) is pending" for instant in pending
    }
    if not reasons:
        return None
    oldest = min(reasons)
    before = timeline.of(*COMMIT_ACTIONS).completed().before(oldest).last()
    return Hold(before.time if before else oldest, reasons[oldest])


def _oldest_pending(timeline: ActiveTimeline) -> Hold | None:
    """Of services, too: it stays, and so does what is not older."""
    first = timeline.pending().first()
    return None if first is None else Hold(first.time, f"{first.time} ({first.action}) is pending")


def _uncompacted(timeline: ActiveTimeline, facts: ArchivalFacts) -> Hold | None:
    """The first that completed after the metadata table was compacted: logs there say what it
    did."""
    compaction = facts.metadata_compaction
    if compaction is None:
        return None
    for instant in timeline.of(*COMMIT_ACTIONS, *_BESIDE_COMMITS).completed():
        if max(instant.time, instant.completed_at or instant.time) >= compaction:
            return Hold(instant.time, "the metadata table has not compacted it yet")
    return None


def _compaction(timeline: ActiveTimeline, config: ArchivalConfig) -> Hold | None:
    """The delta commits that the compaction trigger counts, back to the last compaction."""
    wanted = config.compaction_delta_commits
    if wanted is None:
        return None
    compaction = timeline.of(Action.COMMIT).completed().last()
    deltas = timeline.of(Action.DELTACOMMIT)
    since = deltas if compaction is None else deltas.after(compaction.time)
    if not len(since):
        return None
    if len(since) < wanted:
        first = compaction or since.instants[0]
        return Hold(first.time, "delta commits since then wait for compaction")
    return Hold(since.instants[len(since) - wanted].time, "compaction counts delta commits from it")


def _replaced(timeline: ActiveTimeline, facts: ArchivalFacts) -> Hold | None:
    """The first replacecommit that the last clean may not have worked off."""
    clean = facts.last_clean
    replacements = timeline.of(Action.REPLACECOMMIT, Action.CLUSTERING)
    if clean is not None:
        replacements = replacements.at_or_after(clean.earliest_retained or clean.time)
    first = replacements.first()
    return None if first is None else Hold(first.time, "what it replaced is not cleaned yet")


def _schema(facts: ArchivalFacts) -> Hold | None:
    """Hudi takes the ids of columns from the newest active commit that is of no service."""
    time = facts.schema_commit
    return None if time is None else Hold(time, "no later write says the version of the schema")


def _why_nothing(
    timeline: ActiveTimeline, config: ArchivalConfig, facts: ArchivalFacts, hold: Hold | None
) -> str:
    if hold is not None:
        return f"nothing may be archived from {hold.time} on: {hold.reason}"
    commits = timeline.of(*COMMIT_ACTIONS).completed()
    _, commits_max = _limits(commits, config, facts)
    counted_on = " while cleaning counts on them" if commits_max > config.commits_max else ""
    return f"{counted(len(commits), 'completed commit')}; archived above {commits_max}{counted_on}"


def _held(hold: Hold | None) -> dict[str, str]:
    return {} if hold is None else {"held_at": str(hold.time), "held_because": hold.reason}


def _count(instants: Iterable[Instant]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for instant in instants:
        counts[str(instant.action)] = counts.get(str(instant.action), 0) + 1
    return counts
