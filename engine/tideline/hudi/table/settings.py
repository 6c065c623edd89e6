"""Settings by name, as Hudi spells them: text in properties and options, typed for us.

Names, defaults and limits are those of `tideline.settings`; a setting is found under any of its
names, the first one first. One that cannot be read is a ConfigError that names it, its value and
what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from tideline.errors import ConfigError
from tideline.heartbeat_limits import HeartbeatLimits
from tideline.lock_timing import RENEWALS_PER_LEASE_MIN, LockTiming
from tideline.settings.registry import find_setting
from tideline.settings.setting import Kind, Setting, read_decimal, read_flag, read_integer

LEASE = "hoodie.write.lock.storage.validity.timeout.secs"
RENEWAL = "hoodie.write.lock.storage.renew.interval.secs"
LOCK_WAIT = "hoodie.write.lock.wait_time_ms"

T = TypeVar("T")
_SOURCE = "setting"
E = TypeVar("E", bound=Enum)


@dataclass(frozen=True, slots=True)
class Settings:
    """Typed access to `hoodie.*` and `tideline.*` settings; errors name the setting.

    A `default` given here goes before the setting's own.
    """

    properties: Mapping[str, str]

    def is_set(self, name: str) -> bool:
        """Whether the setting is given, under any of its names."""
        return self._given(_setting(name)) is not None

    def text(self, name: str, default: str | None = None) -> str:
        setting = _setting(name)
        given = self._given(setting)
        own = setting.default if default is None else default
        return (own if given is None else given[1]).strip()

    def names(self, name: str) -> tuple[str, ...]:
        words = (word.strip() for word in self.text(name, "").split(","))
        return tuple(word for word in words if word)

    def boolean(self, name: str, default: bool | None = None) -> bool:
        return self._read(_setting(name), default, read_flag)

    def integer(self, name: str, default: int | None = None) -> int:
        setting = _setting(name)
        return self._read(setting, default, lambda text: read_integer(text, setting.at_least))

    def decimal(self, name: str, default: float | None = None) -> float:
        return self._read(_setting(name), default, read_decimal)

    def member(self, name: str, kind: type[E], default: E | None = None) -> E:
        words = ", ".join(str(member.value) for member in kind)
        by_word = {str(member.value).lower(): member for member in kind}

        def convert(text: str) -> E:
            # Hudi's values are often classes, with or without their packages.
            return by_word.get(text.lower()) or by_word[text.rpartition(".")[2].lower()]

        return self._read(_setting(name), default, convert, f"one of {words}")

    def value(self, name: str, words: type[Enum] | None = None) -> Any:
        """Typed as the setting is declared; `words` are what the values of a word mean."""
        if words is not None:
            return self.member(name, words)
        match _setting(name).kind:
            case Kind.FLAG:
                return self.boolean(name)
            case Kind.INTEGER:
                return self.integer(name)
            case Kind.DECIMAL:
                return self.decimal(name)
            case Kind.NAMES:
                return self.names(name)
        return self.text(name)

    def declared(self, config: type) -> dict[str, Any]:
        """The fields of a config that are `declared`, as they are set."""
        sources = {attribute.name: attribute.metadata.get(_SOURCE) for attribute in fields(config)}
        return {name: self.value(*source) for name, source in sources.items() if source}

    def heartbeat_limits(self) -> HeartbeatLimits:
        interval_ms = self.integer("hoodie.client.heartbeat.interval_in_ms")
        misses = self.integer("hoodie.client.heartbeat.tolerable.misses")
        return HeartbeatLimits(interval_ms / 1000, misses)

    def lock_timing(self) -> LockTiming:
        """Hudi's settings of its storage lock, and of waiting for it.

        Hudi's retries of waiting are one long wait here. `outlasts_lease` unless a setting says how
        long to wait. Raises ConfigError as Hudi does, for a lease of too few renewals as well.
        """
        validity_s = self.integer(LEASE)
        renew_s = self.integer(RENEWAL, validity_s // RENEWALS_PER_LEASE_MIN)
        if renew_s * RENEWALS_PER_LEASE_MIN > validity_s:
            least = f"at least {RENEWALS_PER_LEASE_MIN} times {RENEWAL}"
            raise ConfigError(f"{LEASE} must be {least}", value=f"{validity_s} and {renew_s}")
        retries = self.integer("hoodie.write.lock.client.num_retries")
        waits_ms = (retries + 1) * self.integer(LOCK_WAIT)
        between_ms = self.integer("hoodie.write.lock.client.wait_time_ms_between_retry")
        pause_ms = self.integer("hoodie.write.lock.wait_time_ms_between_retry")
        return LockTiming(
            validity_s=validity_s,
            renew_interval_s=renew_s,
            wait_s=(waits_ms + retries * between_ms) / 1000,
            poll_s_max=pause_ms / 1000,
            outlasts_lease=not self.is_set(LOCK_WAIT),
        )

    def _read(
        self,
        setting: Setting,
        default: T | None,
        convert: Callable[[str], T],
        expected: str | None = None,
    ) -> T:
        given = self._given(setting)
        if given is None and default is not None:
            return default
        name, text = given or (setting.name, setting.default)
        try:
            return convert(text.strip())
        except (KeyError, ValueError):
            must_be = expected or setting.expected
            raise ConfigError(f"{name} must be {must_be}", value=text) from None

    def _given(self, setting: Setting) -> tuple[str, str] | None:
        """The name by which the setting is given, and its text."""
        for name in setting.names:
            if name in self.properties:
                return name, self.properties[name]
        return None


def declared(name: str, words: type[Enum] | None = None) -> Any:
    """A field of a config that a setting gives, with the setting's default."""
    default = Settings({}).value(name, words)
    return field(default=default, metadata={_SOURCE: (name, words)})


def _setting(name: str) -> Setting:
    setting = find_setting(name)
    if setting is None:
        raise LookupError(f"{name} is missing in tideline.settings")
    return setting


def compiled_pattern(name: str, regex: str) -> re.Pattern[str]:
    """The regular expression that a setting gives. Raises ConfigError naming the setting."""
    try:
        return re.compile(regex)
    except re.error as error:
        raise ConfigError(f"{name} is not a regular expression: {error}", value=regex) from error
