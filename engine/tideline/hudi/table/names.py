"""Names as callers give them: of columns, where a text is no sequence of letters, of choices."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from tideline.errors import ConfigError

E = TypeVar("E", bound=Enum)


def column_names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Column names; in one text they are separated by commas, as on the command line.

    Raises ConfigError for what is neither.
    """
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",") if name.strip())
    return one_or_several(given)


def one_or_several(given: str | Iterable[str]) -> tuple[str, ...]:
    """Names that may hold commas: a text is one. Raises ConfigError for what is no text."""
    names = (given,) if isinstance(given, str) else tuple(given)
    strangers = [name for name in names if not isinstance(name, str)]
    if strangers:
        raise ConfigError("a name is a text", value=strangers[0])
    return names


def member_named(kind: type[E], text: E | str | None, what: str) -> E | None:
    """The member of an enumeration by its name, in any case; itself for itself, None for None.

    Raises ConfigError that calls it `what`.
    """
    if text is None:
        return None
    if not isinstance(text, str):
        return text
    found = kind.__members__.get(text.strip().upper())
    if found is None:
        raise ConfigError(f"{what} must be one of {', '.join(kind.__members__)}", value=text)
    return found
