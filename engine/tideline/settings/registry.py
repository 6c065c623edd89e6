"""All settings, found by any of their names."""

from __future__ import annotations

from functools import cache

from tideline.settings.families import ALL_FAMILIES
from tideline.settings.setting import FAMILY, Setting, Support
from tideline.wording import nearest

_PREFIXES = ("", "hoodie.", "tideline.", "hoodie.datasource.", "hoodie.datasource.write.")


@cache
def all_settings() -> tuple[Setting, ...]:
    """Every setting, families of names included, in the order of the documentation."""
    return tuple(setting for family in ALL_FAMILIES for setting in family.settings)


def find_setting(name: str) -> Setting | None:
    """The setting of this name, else the family it belongs to; None for an unknown name."""
    by_name = _by_name()
    if name in by_name:
        return by_name[name]
    begin = name
    while "." in begin:
        begin = begin.rpartition(".")[0]
        if begin + FAMILY in by_name:
            return by_name[begin + FAMILY]
    return None


def nearest_name(name: str) -> str | None:
    """The known name most like an unknown one, honoured ones first."""
    known = [
        other
        for setting in sorted(all_settings(), key=_rank)
        if not setting.is_family
        for other in setting.names
    ]
    folded = {other.casefold(): other for other in reversed(known)}
    for prefix in _PREFIXES:
        if (exact := folded.get(prefix + name.casefold())) is not None:
            return exact
    endings = [other for other in known if other.endswith(f".{name.casefold()}")]
    if endings:
        return endings[0]
    return nearest(name, folded.values())


def _rank(setting: Setting) -> int:
    return list(Support).index(setting.support)


@cache
def _by_name() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for setting in all_settings():
        for name in setting.names:
            if name in found:
                raise ValueError(f"two settings are called {name}")
            found[name] = setting
    return found
