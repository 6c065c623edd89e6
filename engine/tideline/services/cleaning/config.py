"""Settings of cleaning, with Hudi's names and defaults.

`tideline.clean.pinned.instants` is ours: instants, separated by commas, whose snapshot a reader
still needs. Cleaning keeps everything from the oldest of them on until the setting is taken away.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tideline.heartbeat_limits import DEFAULT_LIMITS, HeartbeatLimits
from tideline.lock_timing import DEFAULT_TIMING, LockTiming
from tideline.table.settings import Settings
from tideline.timeline.instant_time import InstantTime

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
    commits_retained: int = 10
    hours_retained: int = 24
    file_versions_retained: int = 3
    is_automatic: bool = True
    is_incremental: bool = True
    allows_several: bool = False
    trigger_commits: int = 1
    commits_to_clean_max: int | None = None
    empty_clean_interval_hours: int | None = None
    pinned_instants: tuple[InstantTime, ...] = ()
    lock_timing: LockTiming = DEFAULT_TIMING
    heartbeat: HeartbeatLimits = DEFAULT_LIMITS

    @classmethod
    def from_settings(cls, read: Settings) -> CleaningConfig:
        """Typed settings. Raises ConfigError naming the setting that cannot be read."""
        empty_hours = read.integer("hoodie.write.empty.clean.interval.hours", -1, at_least=-1)
        commits_max = read.integer("hoodie.clean.max.commits.to.clean", 0)
        pinned = tuple(sorted(map(InstantTime.parse, read.names(PINNED_INSTANTS))))
        return cls(
            policy=_policy(read),
            commits_retained=_integer(read, "commits.retained", 10, at_least=1),
            hours_retained=_integer(read, "hours.retained", 24),
            file_versions_retained=_integer(read, "fileversions.retained", 3, at_least=1),
            is_automatic=read.boolean("hoodie.clean.automatic", True),
            is_incremental=read.boolean(
                _spelled(
                    read, "hoodie.clean.incremental.enabled", "hoodie.cleaner.incremental.mode"
                ),
                True,
            ),
            allows_several=read.boolean("hoodie.clean.multiple.enabled", False),
            trigger_commits=read.integer(
                _spelled(read, "hoodie.clean.trigger.max.commits", "hoodie.clean.max.commits"),
                1,
                at_least=1,
            ),
            commits_to_clean_max=commits_max or None,
            empty_clean_interval_hours=empty_hours if empty_hours > 0 else None,
            pinned_instants=pinned,
            lock_timing=read.lock_timing(),
            heartbeat=read.heartbeat_limits(),
        )


def _policy(read: Settings) -> CleaningPolicy:
    """The policy named, else that of the one retention that is configured, as Hudi infers it."""
    name = _spelled(read, "hoodie.clean.policy", "hoodie.cleaner.policy")
    if name in read.properties:
        return read.member(name, CleaningPolicy, CleaningPolicy.KEEP_LATEST_COMMITS)
    configured = [
        policy
        for policy, suffix in _RETENTIONS.items()
        if any(name in read.properties for name in _names(suffix))
    ]
    return configured[0] if len(configured) == 1 else CleaningPolicy.KEEP_LATEST_COMMITS


_RETENTIONS = {
    CleaningPolicy.KEEP_LATEST_COMMITS: "commits.retained",
    CleaningPolicy.KEEP_LATEST_BY_HOURS: "hours.retained",
    CleaningPolicy.KEEP_LATEST_FILE_VERSIONS: "fileversions.retained",
}


def _integer(read: Settings, suffix: str, default: int, *, at_least: int = 0) -> int:
    return read.integer(_spelled(read, *_names(suffix)), default, at_least=at_least)


def _names(suffix: str) -> tuple[str, str]:
    return f"hoodie.clean.{suffix}", f"hoodie.cleaner.{suffix}"


def _spelled(read: Settings, name: str, older: str) -> str:
    """The name by which a setting is given: Hudi renamed some and reads both."""
    return older if name not in read.properties and older in read.properties else name
