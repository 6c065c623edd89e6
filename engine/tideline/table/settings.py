"""Settings by name, as Hudi spells them: text in properties and options, typed for us.

Absent settings have the default the caller names; one that cannot be read is a ConfigError that
tells its name, its value and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from tideline.errors import ConfigError
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.lock_timing import DEFAULT_TIMING, RENEWALS_PER_LEASE_MIN, LockTiming

_LEASE_NAMES = ("validity.timeout.secs", "renew.interval.secs")
_WAIT_NAMES = ("wait_time_ms", "client.num_retries", "client.wait_time_ms_between_retry")

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Settings:
    """Typed access to `hoodie.*` and `tideline.*` settings; errors name the setting."""

    properties: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        return self.properties.get(name, default).strip()

    def names(self, name: str) -> tuple[str, ...]:
        words = (word.strip() for word in self.properties.get(name, "").split(","))
        return tuple(word for word in words if word)

    def boolean(self, name: str, default: bool) -> bool:
        def convert(text: str) -> bool:
            return {"true": True, "false": False}[text.lower()]

        return self._convert(name, default, convert, "true or false")

    def integer(self, name: str, default: int, *, at_least: int = 0) -> int:
        def convert(text: str) -> int:
            number = int(text)
            if number < at_least:
                raise ValueError(text)
            return number

        return self._convert(name, default, convert, f"an integer of at least {at_least}")

    def heartbeat_limits(self) -> HeartbeatLimits:
        interval_ms = self.integer("hoodie.client.heartbeat.interval_in_ms", 60_000, at_least=1)
        misses = self.integer("hoodie.client.heartbeat.tolerable.misses", 10)
        return HeartbeatLimits(interval_ms / 1000, misses)

    def lock_timing(self) -> LockTiming:
        """Hudi's settings of its storage lock, and of waiting for it.

        Hudi's retries of waiting are one long wait here. `outlasts_lease` unless a setting says how
        long to wait. Raises ConfigError as Hudi does, for a lease of too few renewals as well.
        """
        lease, renewal = (f"hoodie.write.lock.storage.{name}" for name in _LEASE_NAMES)
        if renewal not in self.properties:
            renewal = "hoodie.write.lock.storage.heartbeat.poll.secs"
        validity_s = self.integer(lease, round(DEFAULT_TIMING.validity_s), at_least=10)
        renew_s = self.integer(renewal, validity_s // RENEWALS_PER_LEASE_MIN, at_least=1)
        if renew_s * RENEWALS_PER_LEASE_MIN > validity_s:
            least = f"at least {RENEWALS_PER_LEASE_MIN} times {renewal}"
            raise ConfigError(f"{lease} must be {least}", value=f"{validity_s} and {renew_s}")
        wait, retries, between = (f"hoodie.write.lock.{name}" for name in _WAIT_NAMES)
        number = self.integer(retries, 0)
        waits_ms = (number + 1) * self.integer(wait, round(DEFAULT_TIMING.wait_s * 1000))
        pause_ms = self.integer("hoodie.write.lock.wait_time_ms_between_retry", 1000, at_least=1)
        return LockTiming(
            validity_s=validity_s,
            renew_interval_s=renew_s,
            wait_s=(waits_ms + number * self.integer(between, 5_000)) / 1000,
            poll_s_max=pause_ms / 1000,
            outlasts_lease=wait not in self.properties,
        )

    def decimal(self, name: str, default: float) -> float:
        def convert(text: str) -> float:
            number = float(text)
            if not 0 < number < float("inf"):
                raise ValueError(text)
            return number

        return self._convert(name, default, convert, "a number above 0")

    def member(self, name: str, kind: type[E], default: E) -> E:
        words = ", ".join(str(member.value) for member in kind)

        def convert(text: str) -> E:
            by_word = {str(member.value).lower(): member for member in kind}
            return by_word[text.lower()]

        return self._convert(name, default, convert, f"one of {words}")

    def _convert(self, name: str, default: T, convert: Callable[[str], T], expected: str) -> T:
        text = self.properties.get(name)
        if text is None:
            return default
        try:
            return convert(text.strip())
        except (KeyError, ValueError):
            raise ConfigError(f"{name} must be {expected}", value=text) from None
