"""Short ways to write settings down, for the families."""

from __future__ import annotations

from typing import Any

from tideline.settings.setting import (
    ANYWHERE,
    STORED_ONLY,
    Kind,
    Risk,
    Setting,
    SettingPlace,
    Support,
)

OFF = ("false",)


def flag(name: str, default: str, sentence: str, **more: Any) -> Setting:
    """An honoured true or false."""
    return Setting(name, sentence, kind=Kind.FLAG, default=default, **more)


def integer(
    name: str, default: int | str, sentence: str, at_least: int = 0, **more: Any
) -> Setting:
    """An honoured whole number."""
    return Setting(
        name, sentence, kind=Kind.INTEGER, default=str(default), at_least=at_least, **more
    )


def decimal(name: str, default: str, sentence: str, **more: Any) -> Setting:
    """An honoured number above 0."""
    return Setting(name, sentence, kind=Kind.DECIMAL, default=default, **more)


def text(name: str, default: str, sentence: str, **more: Any) -> Setting:
    """An honoured text."""
    return Setting(name, sentence, default=default, **more)


def names(name: str, sentence: str, **more: Any) -> Setting:
    """Honoured names, separated by commas."""
    return Setting(name, sentence, kind=Kind.NAMES, **more)


def word(name: str, default: str, words: tuple[str, ...], sentence: str, **more: Any) -> Setting:
    """An honoured choice among words."""
    return Setting(name, sentence, kind=Kind.WORD, default=default, words=words, **more)


def settles(name: str, sentence: str, **more: Any) -> Setting:
    """An honoured setting that says what the table is."""
    return Setting(name, sentence, settles_table=True, **more)


def stored(name: str, sentence: str, **more: Any) -> Setting:
    """A property that engines keep in a table by themselves and no user gives."""
    return Setting(name, sentence, places=STORED_ONLY, **more)


def harmless(
    reason: str,
    *of: str,
    words: tuple[str, ...] = (),
    places: frozenset[SettingPlace] = ANYWHERE,
) -> tuple[Setting, ...]:
    """Settings that are taken and do nothing, for one reason."""
    return tuple(
        Setting(
            name,
            reason,
            Support.HARMLESS,
            words=words,
            places=places,
        )
        for name in of
    )


def refused(
    advice: str,
    *of: str,
    unless: tuple[str, ...] = (),
    aliases: tuple[str, ...] = (),
    risk: Risk | None = None,
) -> tuple[Setting, ...]:
    """Settings that are not taken, `unless` the value is what Tideline does anyway."""
    return tuple(
        Setting(
            name,
            advice,
            Support.REFUSED,
            words=unless,
            aliases=aliases,
            risk=risk,
        )
        for name in of
    )
