"""Names given as a sequence, or as one text: a text is never taken for a sequence of letters."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.errors import ConfigError


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
