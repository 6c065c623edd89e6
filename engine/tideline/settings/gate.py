"""Judging settings: those that a user gives are refused where wrong, stored ones are only reported.

The user who gives a setting can correct it. A table that has a wrong one stored must still open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.settings.registry import find_setting, nearest_name
from tideline.settings.setting import Risk, Setting, SettingPlace, Support, refusal


def check_given(given: Mapping[str, object] | None, place: SettingPlace) -> dict[str, str]:
    """The settings under their first names, as text.

    Raises ConfigError for an unknown name (naming the nearest), for one that is refused or cannot
    stand in this place, for a value that cannot be read, and for two names of one setting with
    different values.
    """
    checked: dict[str, str] = {}
    said: dict[str, str] = {}
    for name, value in (given or {}).items():
        text = _text(value)
        setting = _known(name, place)
        if not setting.accepts(text):
            raise refusal(setting, name, text)
        canonical = name if setting.is_family else setting.name
        if checked.get(canonical, text) != text:
            both = f"{said[canonical]} and {name}"
            raise ConfigError(f"{both} are one setting; give it once", value=text)
        checked[canonical], said[canonical] = text, name
    return checked


def problem_of(name: str, value: object, place: SettingPlace) -> str | None:
    """What `check_given` would say against one setting, None when it takes it."""
    try:
        check_given({name: value}, place)
    except ConfigError as problem:
        return problem.message
    return None


@dataclass(frozen=True, slots=True)
class StoredProblem:
    """A setting in a table's properties that is not honoured, and what goes wrong by it if so."""

    name: str
    message: str
    risk: Risk | None = None

    @property
    def stops_writers(self) -> bool:
        """Whether nothing may write to the table."""
        return self.risk is not None


def stored_problems(properties: Mapping[str, str]) -> Iterator[StoredProblem]:
    """Settings stored in a table that are unknown, or that Tideline does not honour."""
    for name, text in sorted(properties.items()):
        setting = find_setting(name)
        problem = (
            StoredProblem(name, _unknown(name))
            if setting is None
            else _problem_stored(setting, name, text)
        )
        if problem is not None:
            yield problem


def dangers_stored(properties: Mapping[str, str]) -> Iterator[StoredProblem]:
    """Those of `stored_problems` that stop writers; does not look for names like unknown ones."""
    for name, text in sorted(properties.items()):
        setting = find_setting(name)
        problem = None if setting is None else _problem_stored(setting, name, text)
        if problem is not None and problem.stops_writers:
            yield problem


def _problem_stored(setting: Setting, name: str, text: str) -> StoredProblem | None:
    if setting.support is Support.HONOURED or setting.accepts(text.strip()):
        return None
    return StoredProblem(name, refusal(setting, name, text).message, setting.risk)


def _known(name: str, place: SettingPlace) -> Setting:
    setting = find_setting(name)
    if setting is None:
        raise ConfigError(_unknown(name), value=name)
    if place not in setting.places:
        raise ConfigError(f"{name} cannot be {place}: {setting.sentence}", value=name)
    return setting


def _unknown(name: str) -> str:
    nearest = nearest_name(name)
    hint = (
        f"did you mean {nearest}?" if nearest else "see docs/configuration.md for those there are"
    )
    return f"no setting is called {name}; {hint}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).strip()
