"""How long a writer may be silent before others take it for dead: a value that all layers know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeartbeatLimits:
    """How often a writer renews its heartbeat, and how many renewals it may miss."""

    interval_s: float = 60.0
    tolerable_misses: int = 10

    @property
    def silent_s_max(self) -> float:
        """A process that is silent for longer counts as dead."""
        return self.interval_s * self.tolerable_misses


DEFAULT_LIMITS = HeartbeatLimits()
