"""The ingests that a command is about, of a file of LakeTables and LakeSources.

What such a file declares is for the package that knows them: it names a function in the entry point
group `tideline.declarations`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation

_ENTRY_POINT_GROUP = "tideline.declarations"


def declaration_option(*more: str) -> Callable[[Any], Any]:
    """`--file`, under `more` names as well."""
    return click.option(
        "-f",
        "--file",
        *more,
        "path",
        metavar="FILE",
        required=True,
        type=click.Path(path_type=Path),
        help="A YAML file with the LakeTable or the LakeSource, or a folder of them.",
    )


def declared_ingest(path: Path, table: str | None) -> Operation:
    """The one ingest that a file declares of a table, as the operation that takes nothing in.
    Raises ConfigError for what it does not declare."""
    found = declared_ingests(path, table)
    if len(found) == 1:
        return found[0]
    known = ", ".join(operation.ingest.name for operation in found)
    raise ConfigError(f"the table has {len(found)} ingests ({known})", table=found[0].table.name)


def declared_ingests(path: Path, table: str | None) -> tuple[Operation, ...]:
    """All of them, likewise; at least one."""
    for entry in entry_points(group=_ENTRY_POINT_GROUP):
        found = entry.load()(path, table)
        assert isinstance(found, tuple) and found
        return found
    raise ConfigError("no package that is installed reads files of LakeTables", path=path)
