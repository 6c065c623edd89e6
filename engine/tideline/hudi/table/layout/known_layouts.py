"""Which layout a table has, by its properties: the one place that asks for the version number."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.table.layout.version_6 import version_6, version_before_6
from tideline.hudi.table.layout.version_8 import version_8, version_9

VERSION = "hoodie.table.version"
LAYOUT_VERSION = "hoodie.timeline.layout.version"

TABLE_VERSION = 9
"""The version of new tables, unless they are given another."""

_LAYOUTS: Mapping[int, Callable[[Mapping[str, str]], TableLayout]] = {
    3: partial(version_before_6, 3),
    4: partial(version_before_6, 4),
    5: partial(version_before_6, 5),
    6: version_6,
    8: version_8,
    9: version_9,
}

TABLE_VERSIONS = tuple(version for version, make in _LAYOUTS.items() if make({}).is_written)
"""The versions of tables that are written."""


def layout_of(properties: Mapping[str, str]) -> TableLayout:
    """The layout of a table with these properties.

    Raises UnsupportedTableError for a version that Tideline does not read, CorruptTableError for
    one that is no number.
    """
    version = table_version_in(properties)
    make = _LAYOUTS.get(version)
    if make is None:
        raise UnsupportedTableError(_refusal(version), value=str(version))
    layout = make(properties)
    found = timeline_layout_in(properties)
    if found != layout.timeline.version:
        raise UnsupportedTableError(
            f"table version {version} is not supported with this timeline layout: it goes with "
            f"layout {layout.timeline.version}",
            value=str(found),
        )
    return layout


def layout_of_version(version: int, properties: Mapping[str, str]) -> TableLayout:
    """The layout that a table with these properties has in this version, whatever it has now.

    Raises ConfigError for a version that Tideline does not know.
    """
    make = _LAYOUTS.get(version)
    if make is None:
        raise ConfigError(f"not a table version: {_READ_AND_WRITTEN}", value=version)
    return make(properties)


def layout_of_new(table_version: int) -> TableLayout:
    """The layout of a table that is to be created. Raises ConfigError unless Tideline writes it."""
    if table_version not in TABLE_VERSIONS:
        raise ConfigError(
            f"no table of this version can be created: {_READ_AND_WRITTEN}", value=table_version
        )
    return _LAYOUTS[table_version]({})


def table_version_in(properties: Mapping[str, str]) -> int:
    """`hoodie.table.version`; 0 when absent, as in tables of Hudi before 0.6.

    Raises CorruptTableError for what is no number.
    """
    return _number(properties, VERSION, 0)


def timeline_layout_in(properties: Mapping[str, str]) -> int:
    """`hoodie.timeline.layout.version`, 1 when absent. Raises as `table_version_in`."""
    return _number(properties, LAYOUT_VERSION, 1)


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, "").strip()
    if text and not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise CorruptTableError(f"{key}: not a number", value=text)
    return int(text or default)


def _refusal(version: int) -> str:
    if version > min(_LAYOUTS):
        return f"table version {version} is not supported: {_READ_AND_WRITTEN}"
    return (
        f"table version {version} is too old: {_READ_AND_WRITTEN}; upgrade the table with Hudi "
        "first"
    )


_READ_AND_WRITTEN = (
    f"Tideline reads versions {', '.join(map(str, _LAYOUTS))} and writes "
    f"{', '.join(map(str, TABLE_VERSIONS))}"
)
