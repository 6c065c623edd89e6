"""Settings of cleaning, with Hudi's names and defaults.

`tideline.clean.pinned.instants` is ours: instants, separated by commas, whose snapshot a reader
still needs. Cleaning keeps everything from the oldest of them on until the setting is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.heartbeat_limits import DEFAULT_LIMITS, HeartbeatLimits
from tideline.hudi.metadata_table.config import KEEP_AS_IT_IS, MetadataTableConfig
from tideline.hudi.table.settings import Settings, declared
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.lock_timing import DEFAULT_TIMING, LockTiming

PINNED_INSTANTS = "tideline.clean.pinned.instants"


class CleaningPolicy(Enum):
    """What is kept of the past: the files of the newest commits, of hours, or versions per file."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class CleaningConfig:
    """How much of the past cleaning keeps, and when it is due.

    It is due after `trigger_commits` completed commits; one clean moves what is retained forward by
    at most `commits_to_clean_max` commits (None: without limit). With `empty_clean_interval_hours`
    a clean without work is written down that long after the last one (None: never).
    """

    policy: CleaningPolicy = CleaningPolicy.KEEP_LATEST_COMMITS
    commits_retained: int = declared("hoodie.clean.commits.retained")
    hours_retained: int = declared("hoodie.clean.hours.retained")
    file_versions_retained: int = declared("hoodie.clean.fileversions.retained")
    is_incremental: bool = declared("hoodie.clean.incremental.enabled")
    allows_several: bool = declared("hoodie.clean.multiple.enabled")
    trigger_commits: int = declared("hoodie.clean.trigger.max.commits")
    commits_to_clean_max: int | None = None
    empty_clean_interval_hours: int | None = None
    pinned_instants: tuple[InstantTime, ...] = ()
    lock_timing: LockTiming = DEFAULT_TIMING
    heartbeat: HeartbeatLimits = DEFAULT_LIMITS
    metadata_table: MetadataTableConfig = KEEP_AS_IT_IS

    @classmethod
    def from_settings(cls, read: Settings) -> CleaningConfig:
        """Typed settings. Raises ConfigError naming the setting that cannot be read."""
        empty_hours = read.integer("hoodie.write.empty.clean.interval.hours")
        commits_max = read.integer("hoodie.clean.max.commits.to.clean")
        pinned = tuple(sorted(map(InstantTime.parse, read.names(PINNED_INSTANTS))))
        return cls(
            **read.declared(cls),
            policy=_policy(read),
            commits_to_clean_max=commits_max or None,
            empty_clean_interval_hours=empty_hours if empty_hours > 0 else None,
            pinned_instants=pinned,
            lock_timing=read.lock_timing(),
            heartbeat=read.heartbeat_limits(),
            metadata_table=MetadataTableConfig.from_settings(read),
        )


def _policy(read: Settings) -> CleaningPolicy:
    """The policy named, else that of the one retention that is configured, as Hudi infers it."""
    name = "hoodie.clean.policy"
    if read.is_set(name):
        return read.member(name, CleaningPolicy)
    configured = [policy for policy, retention in _RETENTIONS.items() if read.is_set(retention)]
    return configured[0] if len(configured) == 1 else CleaningPolicy.KEEP_LATEST_COMMITS


_RETENTIONS = {
    CleaningPolicy.KEEP_LATEST_COMMITS: "hoodie.clean.commits.retained",
    CleaningPolicy.KEEP_LATEST_BY_HOURS: "hoodie.clean.hours.retained",
    CleaningPolicy.KEEP_LATEST_FILE_VERSIONS: "hoodie.clean.fileversions.retained",
}
