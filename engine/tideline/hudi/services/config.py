"""Settings that all services share: waiting for the lock, heartbeats, the time limit."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.heartbeat_limits import DEFAULT_LIMITS, HeartbeatLimits
from tideline.hudi.metadata_table.config import KEEP_AS_IT_IS, MetadataTableConfig
from tideline.hudi.table.settings import Settings
from tideline.lock_timing import DEFAULT_TIMING, LockTiming


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """How a service runs alongside others.

    A run that is not done after `seconds_max` is given up, its plan kept; None: no limit. For up to
    `settle_s` a run whose commit may be visible asks whether it is.
    """

    lock_timing: LockTiming = DEFAULT_TIMING
    heartbeat: HeartbeatLimits = DEFAULT_LIMITS
    seconds_max: float | None = None
    settle_s: float = 60.0
    metadata_table: MetadataTableConfig = KEEP_AS_IT_IS

    @classmethod
    def from_settings(cls, read: Settings) -> ServiceConfig:
        """Raises ConfigError naming the setting that cannot be read."""
        limit = "tideline.service.timeout.seconds"
        return cls(
            lock_timing=read.lock_timing(),
            heartbeat=read.heartbeat_limits(),
            seconds_max=read.decimal(limit) if read.is_set(limit) else None,
            settle_s=read.integer("tideline.commit.settle.timeout.ms") / 1000,
            metadata_table=MetadataTableConfig.from_settings(read),
        )
