"""What is to be said where no table is: a file, tables below, a folder whose name is like this one.

Only local folders are looked at, since that costs next to nothing, and of one no more than the
first files below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tideline.storage.nested_tables import nested_tables
from tideline.wording import nearest

_FILE = "file://"
_LISTED_MAX = 5_000
_SHOWN_MAX = 5
_IN_A_CATALOG = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)+")


def missing_table(uri: str) -> str:
    """How a sentence continues that no table is at `uri`; empty where there is no more to say."""
    if not uri.startswith(_FILE):
        return ""
    try:
        return _said(Path(uri.removeprefix(_FILE)))
    except OSError:
        return ""


def _said(path: Path) -> str:
    if path.is_dir():
        paths = islice(_files(path), _LISTED_MAX)
        tables = sorted(nested_tables(f"_/{item}" for item in paths))
        if not tables:
            return ""
        shown = ", ".join(table.removeprefix("_/") for table in tables[:_SHOWN_MAX])
        more = ", ..." if len(tables) > _SHOWN_MAX else ""
        return f", but tables are in this folder: {shown}{more}"
    if path.exists():
        return ": this is a file, a table is a folder"
    if _IN_A_CATALOG.fullmatch(path.name):
        return ": for a table in a catalog name the catalog too"
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    meant = nearest(path.name, (item.name for item in beside if item.is_dir()))
    return ": there is no such folder" + (f", did you mean {meant}?" if meant is not None else "")


def _files(folder: Path) -> Iterator[str]:
    for above, folders, names in os.walk(folder):
        folders.sort()
        below = Path(above).relative_to(folder)
        for name in names:
            yield (below / name).as_posix()
