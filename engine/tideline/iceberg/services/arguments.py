"""The arguments of maintenance as texts, in the form in which operations carry them.

Their names are those of Iceberg's procedures; ages instead of moments, so that an operation that
waited does what it would do now. Planning and execution read them with the same functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError
from tideline.formats.filter import ALL_ROWS, Filter
from tideline.formats.filter_parser import parse_filter
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions

STRATEGY = "strategy"
SORT_ORDER = "sort_order"
WHERE = "where"
OLDER_THAN_AGE_MS = "older_than_age_ms"
RETAIN_LAST = "retain_last"
DROPPED_TABLES = "dropped_tables"
"""Tideline's own: UUIDs of tables that were in the folder before, with commas between them."""
QUIET_FOR_MS = "quiet_for_ms"
"""Tideline's own: what was the newest snapshot within that time is not expired."""


@dataclass(frozen=True, slots=True)
class RewriteArguments:
    """What to rewrite, how, and of which files."""

    options: RewriteOptions
    where: Filter


def rewrite_arguments(
    arguments: Mapping[str, str], options: Mapping[str, str], *, properties: Mapping[str, str]
) -> RewriteArguments:
    """Of a rewrite of data files; `properties` are the table's. Raises ConfigError."""
    parsed = RewriteOptions.parse(
        options,
        properties=properties,
        strategy=arguments.get(STRATEGY),
        sort_order=arguments.get(SORT_ORDER),
    )
    where = arguments.get(WHERE)
    return RewriteArguments(parsed, parse_filter(where) if where else ALL_ROWS)


def expire_options(arguments: Mapping[str, str], *, now_ms: int) -> ExpireOptions:
    """Of an expiry of snapshots. Raises ConfigError."""
    age_ms, quiet_ms = number(arguments, OLDER_THAN_AGE_MS), number(arguments, QUIET_FOR_MS)
    return ExpireOptions(
        older_than_ms=None if age_ms is None else now_ms - age_ms,
        retain_last=number(arguments, RETAIN_LAST),
        superseded_before_ms=None if quiet_ms is None else now_ms - quiet_ms,
    )


def orphan_options(arguments: Mapping[str, str], *, now_ms: int) -> OrphanOptions:
    """Of a search for orphan files. Raises ConfigError."""
    age_ms = number(arguments, OLDER_THAN_AGE_MS)
    return OrphanOptions(
        older_than_ms=None if age_ms is None else now_ms - age_ms,
        dropped_tables=tuple(filter(None, arguments.get(DROPPED_TABLES, "").split(","))),
    )


def number(arguments: Mapping[str, str], name: str) -> int | None:
    """An argument that is a whole number, None without it. Raises ConfigError."""
    text = arguments.get(name)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ConfigError(f"{name} takes a whole number", value=text) from None
