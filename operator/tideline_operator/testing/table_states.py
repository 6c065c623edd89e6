"""States of one small table, declared and observed, for tests of pure modules."""

from __future__ import annotations

from typing import Any

from tideline.ingest.landing import Landing, LandingFile
from tideline.ingest.operation import Place
from tideline_operator.actions import Action, Start
from tideline_operator.observed import (
    Observed,
    ObservedLanding,
    ObservedPending,
    ObservedTable,
)
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

NOW_MS = 1_800_000_000_000
FILES = tuple(LandingFile(f"f{number}.parquet", 10, number) for number in range(5))
TABLE = ObservedTable(("id",), ("city",), ("ts",), "COPY_ON_WRITE", latest="20260101000000000")
EMPTY = LakeTableStatus()


def resolved(trigger: dict[str, Any] | None = None, **spec: Any) -> ResolvedTable:
    """A LakeTable `people` with one ingest `landing` of two files a commit; `spec` over it."""
    ingest = {
        "name": "landing",
        "source": {"format": "parquet", "path": "landing"},
        "trigger": trigger or {"every": "30s"},
        "maxFilesPerCommit": 2,
    }
    content = {
        "location": "table",
        "recordKey": ["id"],
        "partitionBy": ["city"],
        "ordering": ["ts"],
        "ingest": [ingest],
        **spec,
    }
    resource = parse_stored(LakeTable, {"metadata": {"name": "people"}, "spec": content})
    if resource is None:
        raise ValueError(f"no LakeTable: {content}")
    landings = {item.name: Place(f"memory://{item.name}") for item in resource.spec.ingest}
    return ResolvedTable(resource, Place("memory://table"), landings)


def seen(*files: LandingFile, table: ObservedTable | None = TABLE, **landing: Any) -> Observed:
    """The table, and the landing prefix with `files` in it."""
    return Observed(table, {"landing": ObservedLanding(Landing(files), **landing)})


def pending(time: str, *, is_dead: bool = False, dead_at_ms: int | None = None) -> ObservedPending:
    """A commit under way."""
    return ObservedPending(time, "commit", "inflight", is_dead, dead_at_ms)


def starts(actions: tuple[Action, ...]) -> list[Start]:
    """The operations a plan starts."""
    return [action for action in actions if isinstance(action, Start)]
