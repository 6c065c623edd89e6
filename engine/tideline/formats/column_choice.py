"""Which columns of rows a caller names, and what is said of a name that none of them has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tideline.errors import ConfigError
from tideline.wording import nearest

_META = "_hoodie_"
"""Columns that Hudi adds: nobody looks for them among those of a table."""
NO_COLUMNS = "the table has no columns before its first write: write to it first"


def chosen_columns(
    given: str | Sequence[str] | None, known: Sequence[str], table: str | None = None
) -> list[str]:
    """The columns that are wanted, in this order; a text is one of them, None is all.

    Raises ConfigError for those that are not there and for one that is named twice.
    """
    if given is None:
        return list(known)
    names = [given] if isinstance(given, str) else list(given)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise no_such_column(unknown, known, table)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError("a column is named twice", table=table, value=", ".join(twice))
    return names


def no_such_column(
    unknown: Sequence[str], known: Iterable[str], table: str | None = None
) -> ConfigError:
    """The error about names that no column has: those that may be meant, and those there are."""
    there = list(known)
    shown = [name for name in there if not name.startswith(_META)]
    meant = {name: found for name in map(str, unknown) if (found := _meant(name, there))}
    guess = f", did you mean {', '.join(meant.values())}?" if meant else ";"
    have = f"there are {', '.join(shown)}" if shown else "there is none before the first write"
    return ConfigError(
        f"no such column{guess} {have}", table=table, value=", ".join(map(str, unknown))
    )


def _meant(name: str, known: Sequence[str]) -> str | None:
    """A column of a similar name, or the one that a member such as `place.zip` is in."""
    outer = name.partition(".")[0]
    return outer if outer != name and outer in known else nearest(name, known)
