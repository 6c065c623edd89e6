"""Can the columns of every file be found, where schema on read changed some?

A history that is missing, or that changes a column which the table is keyed or ordered by, stops
readers and writers. A newest commit of a writer without schema evolution only keeps Hudi's readers
from using ids, until the next commit takes the history up again.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, error, warning
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.table.internal_schema import SCHEMA_DIRECTORY
from tideline.hudi.table.schema_history_reader import newest_schema, schema_history

NAME = "schema"


def check_schema(seen: Inspection) -> Iterator[Finding]:
    """Findings about the history of the table's schema."""
    try:
        history = schema_history(seen.table, seen.timeline)
    except UnsupportedTableError as refused:
        yield error(NAME, refused.message)
        return
    except CorruptTableError as broken:
        # What is wrong with a commit is found where commits are looked into.
        if str(broken.path).startswith(SCHEMA_DIRECTORY):
            yield error(NAME, broken.message, path=str(broken.path))
        return
    newest = newest_schema(seen.table, seen.timeline)
    if history is None or newest is None or newest[1].latest_schema is not None:
        return
    yield warning(
        NAME,
        "the newest commit does not carry the history of the schema on: Hudi finds columns by "
        "name until another commit does",
        instant=newest[0].time,
        advice="write to the table with Tideline, or with hoodie.schema.on.read.enable=true",
    )
